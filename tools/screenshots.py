"""Pictures of the report of some results, as a browser shows and prints it.

    python tools/screenshots.py results/ --out shots            # wide, narrow, dark, printed
    python tools/screenshots.py results/ --picture docs/page.png   # the top of the page alone
    python tools/screenshots.py results/ --small docs/pictures  # the tops of all, as small files
    python tools/screenshots.py --page old.html --small docs/pictures --ending=-before

It needs Chromium and its driver; `tests/system.sh` installs them on Debian. Small pictures of paper
also need `pdftoppm`, of Debian's poppler-utils.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

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


SMALL: dict[str, tuple[dict[str, Any], int]] = {
    "1280": (SHOTS["1280"], 1500),
    "390": (SHOTS["390"], 1500),
    "dark": (SHOTS["dark"], 1500),
}
"""Small pictures: how each is looked at, and how many pixels of the page it has from its top."""
SHEETS, SHEET_DPI = 2, 60
"""How many printed pages a small picture has, and how fine they are."""


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
    browser.open(page, PICTURE)
    _small(_opened(browser.picture(whole=False)), file)


def take_small(browser: Browser, page: Path, folder: Path, ending: str) -> None:
    """The top of the page in every way of looking at it, and the first printed pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (look, height) in SMALL.items():
        browser.open(page, **look)
        whole = _opened(browser.picture())
        _small(whole.crop((0, 0, whole.width, height)), folder / f"page-{name}{ending}.png")
    browser.open(page, **SHOTS["1280"])
    sheets = _sheets(browser.pages())
    paper = Image.new("RGB", (sum(one.width for one in sheets), sheets[0].height))
    for place, sheet in enumerate(sheets):
        paper.paste(sheet, (place * sheet.width, 0))
    _small(paper, folder / f"page-print{ending}.png")


def _sheets(pdf: bytes) -> list[Image.Image]:
    with tempfile.TemporaryDirectory() as place:
        first = ["-f", "1", "-l", str(SHEETS), "-r", str(SHEET_DPI), "-png"]
        command = ["pdftoppm", *first, "-", str(Path(place) / "sheet")]
        subprocess.run(command, input=pdf, check=True)
        return [_opened(path.read_bytes()) for path in sorted(Path(place).glob("*.png"))]


def _opened(png: bytes) -> Image.Image:
    return Image.open(BytesIO(png)).convert("RGB")


def _small(picture: Image.Image, file: Path) -> None:
    picture.quantize(128).save(file, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", nargs="*", type=Path, help="folders, as `convdyno report` has")
    parser.add_argument("--page", type=Path, help="a page that there is already")
    parser.add_argument("--out", type=Path, help="a folder for all pictures")
    parser.add_argument("--picture", type=Path, help="a file for one small picture")
    parser.add_argument("--small", type=Path, help="a folder for small pictures, for the docs")
    parser.add_argument("--ending", default="", help="what their names end with")
    asked = parser.parse_args()
    if bool(asked.results) == bool(asked.page):
        parser.error("give either results or --page")
    if asked.page and not asked.page.is_file():
        parser.error(f"there is no page {asked.page}")
    with tempfile.TemporaryDirectory() as place:
        page = asked.page.resolve() if asked.page else Path(place) / "report.html"
        if asked.results:
            write_page(asked.results, page)
        browser = Browser()
        try:
            if asked.out:
                take_all(browser, page, asked.out)
            if asked.picture:
                take_one(browser, page, asked.picture)
            if asked.small:
                take_small(browser, page, asked.small, asked.ending)
        finally:
            browser.quit()


if __name__ == "__main__":
    main()
