"""Debian's Chromium without a window, seen from outside: what it logs, fetches and shows."""

import base64
import json
import time
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic",
    "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip
DESK, PHONE, PAPER = (1280, 900), (390, 844), (718, 1047)
"""Sizes of a window, and of the room that margins leave on A4."""


class Browser:
    """One page at a time."""

    def __init__(self) -> None:
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self._driver = Chrome(options=options, service=Service("/usr/bin/chromedriver"))

    def open(
        self, page: Path, size: tuple[int, int] = DESK, *, dark: bool = False, media: str = ""
    ) -> None:
        """Load a report and wait until its charts are drawn."""
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1}
        self._command("Emulation.setDeviceMetricsOverride", mobile=size[0] < 500, **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._command("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._driver.get("about:blank")
        self.console()
        self.requests()
        self._driver.get(page.as_uri())
        end = time.monotonic() + 240
        while self.run("return document.documentElement.dataset.ready") != "yes":
            assert time.monotonic() < end, f"the page was not drawn: {self.console()}"
            time.sleep(0.05)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self._driver.execute_script(script, *arguments)

    def console(self) -> list[str]:
        """What was logged since it was last asked."""
        return [entry["message"] for entry in self._driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that were asked for since it was last asked."""
        events = [
            json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")
        ]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def texts(self, selector: str) -> list[str]:
        """The texts of elements that can be seen."""
        found = self._driver.find_elements(By.CSS_SELECTOR, selector)
        return [element.text for element in found if element.is_displayed()]

    def click(self, selector: str) -> None:
        """Click on an element."""
        self._driver.find_element(By.CSS_SELECTOR, selector).click()

    def type(self, selector: str, text: str) -> None:
        """Type into a field."""
        self._driver.find_element(By.CSS_SELECTOR, selector).send_keys(text)

    def choose(self, name: str, option: str) -> None:
        """Choose an option of a filter."""
        self.run(
            "const s = document.querySelector(`select[name=${arguments[0]}]`);"
            "s.value = arguments[1]; s.dispatchEvent(new Event('change'));",
            name,
            option,
        )

    def pages(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self._command("Page.printToPDF", printBackground=True)["data"])

    def picture(self, *, whole: bool = True) -> bytes:
        """The page as it is seen, as a PNG: all of it, or what the window shows."""
        shot = self._command("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    def quit(self) -> None:
        self._driver.quit()

    def _command(self, name: str, **arguments: Any) -> Any:
        return self._driver.execute_cdp_cmd(name, arguments)
