"""A real browser as a fixture. Every test here needs it, and is marked so."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Browser


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        why = f"not installed: {', '.join(missing)}; tests/system.sh installs them on Debian"
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)
    browser = Browser()
    yield browser
    browser.quit()
