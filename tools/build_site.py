"""The documentation as a site that works without a network and without a server.

    python tools/build_site.py                     # into .make/site; open .make/site/index.html
    python tools/build_site.py --out FOLDER

Pages keep their places (README.md, docs/...), so that a link works on a code host and in the site.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "LICENSE")
FOLDERS = ("docs", "examples")
NAMED = re.compile(r"^```python file=(\S+)$", re.MULTILINE)
"""The first line of a block that is a file; the site shows the name above it."""
WORKER = Path(__file__).parent / "site_assets" / "iframe-worker.js"
"""What lets the search work in pages that no server sends."""


def gather(source: Path) -> None:
    """Copy what the site is made of."""
    for name in PAGES:
        shutil.copyfile(ROOT / name, source / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name)
    shutil.copyfile(WORKER, source / WORKER.name)
    for page in source.rglob("*.md"):
        page.write_text(NAMED.sub(r'```python title="\1"', page.read_text()))


def build(out: Path) -> None:
    """Write the site; whatever is wrong with a link ends it with a sentence."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "source"
        source.mkdir()
        gather(source)
        settings = Path(place) / "mkdocs.yml"
        settings.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {source}\n")
        command = ["build", "--quiet", "--strict", "--config-file", settings, "--site-dir", out]
        quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
        subprocess.run([sys.executable, "-m", "mkdocs", *map(str, command)], check=True, env=quiet)


def main() -> None:
    """Build it where it was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / ".make" / "site", help="its folder")
    out = parser.parse_args().out.absolute()
    build(out)
    print(f"{out / 'index.html'}")


if __name__ == "__main__":
    main()
