"""The TOML and the Python that the docs show are understood too."""

import re
from pathlib import Path

import pytest

from convdyno.cli.plan import vocabulary
from convdyno.trial.sweep_file import parse_sweep

DOCS = Path(__file__).parents[1] / "docs"


def blocks(kind: str) -> list[object]:
    return [
        pytest.param(text, id=f"{page.name} {number}")
        for page in sorted(DOCS.glob("*.md"))
        for number, text in enumerate(
            re.findall(rf"```{kind}\n(.*?)```", page.read_text(), re.DOTALL), 1
        )
    ]


@pytest.mark.parametrize("text", blocks("toml"))
def test_a_shown_sweep_is_understood(text: str) -> None:
    sweep = parse_sweep(text, "docs", vocabulary())
    assert sweep.combinations()
    assert sweep.unused == []


@pytest.mark.parametrize("text", blocks("python"))
def test_shown_python_can_be_compiled(text: str) -> None:
    compile(text, "docs", "exec")


def test_every_word_of_a_sweep_is_documented() -> None:
    page = (DOCS / "sweep.md").read_text()
    known = vocabulary()
    words = [word.replace("_", "-") for word in known.words | known.settings]
    assert [word for word in words if f"`{word}`" not in page] == []
