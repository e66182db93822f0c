"""The example workflow is one that a CI system can read, with commands that the tool takes."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from convdyno.cli.main import app

FILE = Path(__file__).parents[2] / "examples" / "gate-workflow.yml"


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(FILE.read_text())["jobs"]["speed"]["steps"]
    return found


def test_its_scripts_are_bash() -> None:
    scripts = [step["run"] for step in steps() if "run" in step]
    assert len(scripts) == 2
    for script in scripts:
        plain = re.sub(r"\$\{\{.*?\}\}", "x", script)
        subprocess.run(["bash", "-n"], input=plain, text=True, check=True)


def test_its_gate_is_understood() -> None:
    (line,) = re.findall(r"convdyno (gate .*?) > gate\.json", FILE.read_text())
    name, *words = shlex.split(line)
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    given = command.make_context(name, words).params
    assert given["base_folder"] == Path("base")
    assert given["network"] == "mine.nets:small"


@pytest.mark.parametrize("text", ["runs-on", "pull_request", "upload-artifact"])
def test_it_has_what_a_workflow_needs(text: str) -> None:
    assert text in FILE.read_text()
