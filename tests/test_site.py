"""The documentation as a site: it can be built, its links lead somewhere, and it needs no net."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]


class Page(HTMLParser):
    """What a page refers to, what can be referred to in it, and its text outside of code."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.text = ""
        self._code = 0
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        self._code += tag in ("code", "script", "style")
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "script", "style")

    def handle_data(self, data: str) -> None:
        self.text += "" if self._code else data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does, strictly: a link to nothing is an error."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, ROOT / "tools" / "build_site.py", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def led_to(page: Path, link: str) -> tuple[Path, str]:
    """The file and the place in it."""
    parts = urlsplit(link)
    return (page.parent / unquote(parts.path)).resolve() if parts.path else page, parts.fragment


def wrong(pages: dict[Path, Page]) -> Iterator[str]:
    for page, seen in pages.items():
        for link in seen.links + seen.loaded:
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            target, place = led_to(page, link)
            if not target.exists() or (place and place not in pages[target].places):
                yield f"{page.name}: {link}"


def test_every_link_leads_somewhere(pages: dict[Path, Page]) -> None:
    assert len(pages) > 30
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert list(wrong(pages)) == []


def test_every_page_of_the_repository_is_in_it(site: Path, pages: dict[Path, Page]) -> None:
    sources = [ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "ARCHITECTURE")]
    sources += (ROOT / "docs").rglob("*.md")
    wanted = {(site / path.relative_to(ROOT)).with_suffix(".html") for path in sources}
    assert wanted - pages.keys() == set()


def test_nothing_comes_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    loaded = {link for page in pages.values() for link in page.loaded}
    assert {link for link in loaded if urlsplit(link).netloc} == set()
    styles = [path for kind in ("*.css", "*.svg") for path in site.rglob(kind)]
    assert styles
    elsewhere = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//")
    assert [path.name for path in styles if elsewhere.search(path.read_text())] == []


def test_markdown_is_not_left_as_it_is(pages: dict[Path, Page]) -> None:
    """What a code host shows as a list, a table or a block is one here too."""
    left = re.compile(r"^(?:- |\| |```|#+ )", re.MULTILINE)
    shown = {page.name: left.findall(seen.text) for page, seen in pages.items()}
    assert {name: found for name, found in shown.items() if found} == {}
