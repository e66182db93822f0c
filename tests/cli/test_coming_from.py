"""Each command of docs/coming-from.md is run: with scripted times, small data and little time."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import runs

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text()
BLOCKS = re.findall(r"^```\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
LINES = [line for block in BLOCKS for line in block.splitlines()]
HERE = [line for line in LINES if "--nodes" not in line and "keras/" not in line]
SMALL = {
    "bench": ["--engine", "clockwork", "--budget", "5m", "--rounds", "1", "--within", "50%"],
    "train": ["--engine", "clockwork", "--data", "bars", "--log-dir", "run"],
    "results": [],
}
"""The last of two values counts."""


@pytest.mark.parametrize("line", HERE)
def test_a_command_for_newcomers_runs(line: str, convdyno: Any, tmp_path: Path) -> None:
    runs.prepare(tmp_path)
    words = shlex.split(line)[1:]
    if words[0] == "results":
        assert convdyno("bench", "trivial", *SMALL["bench"]).code == 0
    done = convdyno(*words, *SMALL[words[0]])
    assert done.code == 0, done.err


def test_every_tool_has_commands() -> None:
    assert len(BLOCKS) == PAGE.count("\n## ") == 7
    assert len(HERE) > 10


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in LINES if "keras/" in line])
def test_a_command_for_kerass_users_runs(line: str, convdyno: Any) -> None:
    done = convdyno(*shlex.split(line)[1:], "--budget", "40s", "--rounds", "1", "--within", "50%")
    assert done.code == 0, done.err
