"""Each page of docs/add is followed to the letter, in a copy of the project.

A page has three kinds of code blocks: `python file=PATH` is a new file, `diff` a change of one file
that is there, and `sh` what to type afterwards, which must end well.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "add").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)
COMMANDS = {"convdyno": "-m convdyno", "pytest": "-m pytest", "python": ""}
LONG = "pytest.mark.long"
HEAVY = {"op": "compiles with every framework"}
"""Pages whose commands take more than a few seconds."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project without what git does not know."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        source, target = ROOT / name, tmp_path / "copy" / name
        if source.is_file() and not name.startswith("tests/records"):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    return tmp_path / "copy"


@pytest.fixture
def surroundings(copy: Path) -> dict[str, str]:
    """The commands of the copy, not those that are installed."""
    shims = copy.parent / "bin"
    shims.mkdir()
    for name, words in COMMANDS.items():
        shim = shims / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        shim.chmod(0o755)
    path = os.pathsep.join((str(shims), str(Path(sys.executable).parent), os.environ["PATH"]))
    return os.environ | {"PYTHONPATH": str(copy / "src"), "PATH": path}


def test_there_is_a_page_for_each_kind_of_thing() -> None:
    kinds = {"network", "op", "axis", "engine", "launcher", "chart", "data-format"}
    assert {page.stem for page in PAGES} >= kinds


def test_contributors_are_told_of_every_page_and_of_all_that_is_long() -> None:
    told = (ROOT / "CONTRIBUTING.md").read_text()
    tests = (ROOT / "tests").glob("*/test_*.py")
    long = {str(path.relative_to(ROOT / "tests")) for path in tests if LONG in path.read_text()}
    assert set(re.findall(r"^- `(\w+/\w+\.py)`: ", told, re.M)) == long
    assert {page.name for page in PAGES if f"(docs/add/{page.name})" not in told} == set()


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=pytest.mark.slow if page.stem in HEAVY else ())
        for page in PAGES
    ],
)
def test_who_follows_a_page_gets_there(
    page: Path, copy: Path, surroundings: dict[str, str]
) -> None:
    commands = 0
    for language, name, text in BLOCK.findall(page.read_text()):
        match language:
            case "python" if name:
                assert not (copy / name).exists(), f"{name} is there already"
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                (copy / name).write_text(text)
            case "diff":
                for change in re.split(r"^(?=--- a/)", text, flags=re.M)[1:]:
                    apply(change, copy)
            case "sh":
                follow(text, copy, surroundings)
                commands += 1
    assert commands


def apply(change: str, copy: Path) -> None:
    """A change of one file as a page shows it, whose line numbers need not be right."""
    done = subprocess.run(
        ["git", "apply", "--recount", "--unidiff-zero", "-p1", "-"],
        input=change, cwd=copy, capture_output=True, text=True,
        env=os.environ | {"GIT_CEILING_DIRECTORIES": str(copy.parent)},
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stderr}\n{change}"


def follow(commands: str, copy: Path, surroundings: dict[str, str]) -> None:
    """What is typed; the first command that fails ends it."""
    done = subprocess.run(
        ["sh", "-euc", commands],
        cwd=copy, env=surroundings, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, f"{commands}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
