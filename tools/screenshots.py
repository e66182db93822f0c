"""Pictures of the report of some results, as a browser shows and prints it.

    python tools/screenshots.py results/ --out shots            # wide, narrow, dark, printed
    python tools/screenshots.py results/ --picture docs/page.png   # the top of the page alone

It needs Chromium and its driver; `tests/system.sh` installs them on Debian.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))
from chromium import DESK, PAPER, PHONE, Browser

SHOTS: dict[str, dict[str, Any]] = {
    "1280": {"size": DESK},
    "390": {"size": PHONE},
    "dark": {"size": DESK, "dark": True},
    "390-dark": {"size": PHONE, "dark": True},
    "print": {"size": PAPER, "media": "print"},
}
"""How each picture is looked at, by its name."""
PICTURE = (1100, 860)
"""The size of the one picture that a README has."""


def write_page(results: list[Path], page: Path) -> None:
    """Have convdyno write the report."""
    command = [sys.executable, "-m", "convdyno", "report", *map(str, results), "--html", str(page)]
    subprocess.run(command, check=True)


def take_all(browser: Browser, page: Path, folder: Path) -> None:
    """Every way of looking at the whole page, and the page on paper."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, look in SHOTS.items():
        browser.open(page, **look)
        (folder / f"{name}.png").write_bytes(browser.picture())
    (folder / "print.pdf").write_bytes(browser.pages())


def take_one(browser: Browser, page: Path, file: Path) -> None:
    """What one sees first, with few enough colours to be a small file."""
    from io import BytesIO

    from PIL import Image

    browser.open(page, PICTURE)
    seen = Image.open(BytesIO(browser.picture(whole=False))).convert("RGB")
    seen.quantize(128).save(file, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", nargs="+", type=Path, help="folders, as `convdyno report` has")
    parser.add_argument("--out", type=Path, help="a folder for all pictures")
    parser.add_argument("--picture", type=Path, help="a file for one small picture")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        page = Path(place) / "report.html"
        write_page(asked.results, page)
        browser = Browser()
        try:
            if asked.out:
                take_all(browser, page, asked.out)
            if asked.picture:
                take_one(browser, page, asked.picture)
        finally:
            browser.quit()


if __name__ == "__main__":
    main()
