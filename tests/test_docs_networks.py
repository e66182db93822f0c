"""The page on writing networks: its networks can be built and run, and it has every brick."""

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import shown

from convdyno.blueprint.draft import Draft, Value
from convdyno.zoo import registry

PAGE = (shown.DOCS / "networks.md").read_text()
CODE = "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
BRICKS = re.findall(r"^\| `([^`]+)` \| ([\dx]+) \| .+ \|$", PAGE, re.MULTILINE)
((WRONG, SENTENCE),) = re.findall(r"^\$ (convdyno .*)\n(convdyno: .*)$", PAGE, re.MULTILINE)
NETWORKS = ("tiny", "small_resnet", "careful", "digits", "two_headed")


@pytest.mark.parametrize(("brick", "shape"), BRICKS)
def test_a_brick_gives_the_shape_that_the_page_says(brick: str, shape: str) -> None:
    net = Draft("page", (56, 56, 64))
    names: dict[str, Any] = {"x": net.image, "y": net.image.relu(), "v": net.image.mean()}
    assert "x".join(map(str, eval(brick, names).shape)) == shape


def test_every_brick_is_on_the_page() -> None:
    public = {
        name
        for name, _ in inspect.getmembers(Value, inspect.isfunction)
        if not name.startswith("_") and name not in ("then", "done")
    }
    assert {name for name in public if f".{name}(" not in " ".join(dict(BRICKS))} == set()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mynets.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mynets", raising=False)
    return tmp_path


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_the_page_can_be_built(folder: Path, name: str) -> None:
    found = registry.find(f"mynets:{name}")
    built = registry.build(f"mynets:{name}", classes=7, width=0.5, auxiliary=found.auxiliary)
    assert built.classes == 7
    assert len(built.heads) == 1 + found.auxiliary


def test_the_sentence_about_what_is_wrong_is_the_real_one(folder: Path, convdyno: Any) -> None:
    done = convdyno(*WRONG.split()[1:])
    assert done.code == 2
    assert done.err.strip() == SENTENCE


@pytest.mark.slow
def test_the_commands_of_the_page_run(folder: Path, convdyno: Any) -> None:
    for line in shown.fenced(PAGE):
        if "--engine all" in line:  # Every framework: tests/stage and tests/engines certify.
            line = line.replace("--engine all", "--engine reference")
        if line != WRONG:
            shown.run(line, convdyno, folder)
