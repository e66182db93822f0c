"""Each command of docs/coming-from.md is run: with scripted times, small data and little time."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import shown
import typer.main

from convdyno.cli.main import app
from convdyno.engines import registry

pytestmark = pytest.mark.usefixtures("briefly")

PAGE = (shown.DOCS / "coming-from.md").read_text()
FENCED, CELLS = shown.fenced(PAGE), shown.tabled(PAGE)
LINES = shown.commands(PAGE)
REALLY = [line for line in FENCED if "keras/" in line]
MPI = [line for line in LINES if line.startswith("mpiexec")]
HOSTS = [line for line in LINES if "--nodes" in line]
"""Run by tests/cluster/test_ssh.py."""
SLURM = [
    "convdyno bench deepmnist --slurm partition=GPU,gres=gpu:k80,time=15 --devices 1,2,4 --detach"
]
"""tests/cluster/test_slurm.py has the like of it."""
HERE = [line for line in LINES if line not in REALLY + MPI + HOSTS + SLURM]


@pytest.mark.parametrize("line", HERE)
def test_a_command_for_newcomers_runs(line: str, convdyno: Any, tmp_path: Path) -> None:
    shown.prepare(tmp_path)
    shown.run(line, convdyno, tmp_path)
    for names in re.findall(r"--engine (\S+)", line):
        assert set(names.split(",")) <= registry.engines().keys()


def test_every_tool_has_commands() -> None:
    assert PAGE.count("\n```\n") == 2 * PAGE.count("\n## ") == 14
    assert len(HERE) > 20
    assert all((REALLY, MPI, HOSTS)) and set(SLURM) <= set(LINES)
    assert not [line for line in LINES if "..." in line]


@pytest.mark.parametrize("words", [cell for cell in CELLS if cell.startswith("--")])
def test_options_for_newcomers_are_known(words: str) -> None:
    commands: Any = typer.main.get_command(app)
    known = [
        {name for option in commands.commands[command].params for name in option.opts}
        for command in ("bench", "train")
    ]
    assert any(set(re.findall(r"--[a-z0-9-]+", words)) <= names for names in known)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpiexec") is None, reason="there is no mpiexec")
@pytest.mark.parametrize("line", MPI)
def test_a_command_for_mpis_users_runs(line: str, tmp_path: Path) -> None:
    shown.prepare(tmp_path)
    begin = [sys.executable, "-m", "convdyno"]
    allowed = {f"OMPI_ALLOW_RUN_AS_ROOT{more}": "1" for more in ("", "_CONFIRM")}
    done = subprocess.run(
        ["mpiexec", "--oversubscribe", "-np", "2", *begin, *shown.small(line)],
        cwd=tmp_path, env=os.environ | allowed, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("trained at step") == 1


@pytest.mark.slow
@pytest.mark.parametrize("line", REALLY)
def test_a_command_for_kerass_users_runs(line: str, convdyno: Any) -> None:
    done = convdyno(*shlex.split(line)[1:], "--budget", "40s", "--rounds", "1", "--within", "any")
    assert done.code == 0, done.err
