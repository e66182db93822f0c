"""Every command that the docs show is one that the command line takes."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from convdyno.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(r"^(?:\$ )?(convdyno .*?)(?:\s+#.*)?$", re.MULTILINE)
SHOWN = [
    pytest.param(line, id=f"{page.name}: {line}")
    for page in PAGES
    for block in re.findall(r"```[a-z]*\n(.*?)```", page.read_text(), re.DOTALL)
    for line in COMMAND.findall(block.replace("\\\n", " "))
]


def taken_by(words: list[str]) -> Any:
    """The command that takes these words; unknown options and missing arguments are refused."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("convdyno", [], resilient_parsing=True)
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(context, words)
        context = command.make_context(name, list(words), parent=context, resilient_parsing=True)
    return command.make_context(command.name, words, parent=context.parent).command


@pytest.mark.parametrize("line", SHOWN)
def test_a_shown_command_is_understood(line: str) -> None:
    assert taken_by(shlex.split(line)[1:]).callback


def test_a_wrong_command_is_not() -> None:
    with pytest.raises(Exception, match="No such option"):
        taken_by(["bench", "resnet50", "--bacth", "3"])


def test_there_is_something_to_test() -> None:
    assert len(SHOWN) > 10
