"""The table of axes: it agrees with the trial, and all that follows from it follows by itself."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import convdyno
from convdyno.errors import UnknownName, UsageError
from convdyno.store.preset import Settings
from convdyno.trial import axes
from convdyno.trial.axes import AXES
from convdyno.trial.spec import Trial

DECIDED = {"network", "engine", "batch", "ladder", "optimiser", "rate", "devices", "hosts"}
"""Axes whose default is not a value of their own."""
ENTRY = """    Axis(
        "jumps", "How often it jumps.", parse.whole("--jumps", 0), "0", how=True,
        also=_too("0"),
    ),
    Axis(
        "seed","""
FIELD = """    seed: Annotated[int, Field(ge=0)] = 0
    jumps: Annotated[int, Field(ge=0)] = 0
"""


def test_every_field_of_a_trial_is_an_axis() -> None:
    assert {axis.of_trial for axis in AXES} == Trial.model_fields.keys()
    assert len(axes.BY_NAME) == len(AXES)


@pytest.mark.parametrize("name", [axis.name for axis in AXES if axis.name not in DECIDED])
def test_what_is_not_given_is_the_trials_default(name: str) -> None:
    axis = axes.find(name)
    assert axis.values(axis.default) == [Trial.model_fields[axis.of_trial].default]


def test_presets_have_what_tune_searches() -> None:
    assert tuple(Settings.model_fields) == axes.names(tuned=True)


@pytest.mark.parametrize(
    ("name", "given", "values"),
    [
        ("batch", "8,16", [8, 16]),
        ("batch", [8, "max"], [8, "max"]),
        ("batch", 8, [8]),
        ("image_size", (32, 16), [(32, 16)]),
        ("image_size", [(32, 16), 8], [(32, 16), (8, 8)]),
        ("compile", True, ["on"]),
        ("threads", "auto,2", [None, 2]),
        ("width", 1.0, [1.0]),
        ("auxiliary", True, [True]),
        ("slurm", "partition=a,time=3", ["partition=a,time=3"]),
        ("classes", None, [None]),
    ],
)
def test_values_may_be_words_or_values(name: str, given: Any, values: list[Any]) -> None:
    assert axes.find(name).values(given) == values


def test_what_cannot_be_meant_is_a_sentence() -> None:
    with pytest.raises(UsageError, match="auxiliary is True or False"):
        axes.find("auxiliary").values("yes")
    with pytest.raises(UsageError, match="empty list"):
        axes.find("batch").values([])
    with pytest.raises(UnknownName, match="Did you mean 'batch'"):
        axes.read({"bacth": 8})


@pytest.fixture(scope="module")
def widened(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run a copy of convdyno whose trials have one more axis."""
    folder = tmp_path_factory.mktemp("widened")
    package = folder / "convdyno"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(convdyno.__file__).parent, package, ignore=ignored)
    table, spec = package / "trial" / "axes.py", package / "trial" / "spec.py"
    for path, old, new in (
        (table, '    Axis(\n        "seed",', ENTRY),
        (spec, "    seed: Annotated[int, Field(ge=0)] = 0\n", FIELD),
    ):
        before = path.read_text()
        assert before.count(old) == 1
        path.write_text(before.replace(old, new))

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "convdyno", *words],
            cwd=folder, text=True, capture_output=True,
            env=os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "100"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("command", ["bench", "gate", "tune", "train"])
def test_a_new_axis_is_in_the_help_of_every_command_that_has_it(widened: Any, command: str) -> None:
    assert "--jumps VALUE" in widened(command, "--help-all")


def test_a_new_axis_can_be_swept_measured_asked_for_and_compared(
    widened: Any, tmp_path: Path
) -> None:
    sweep = tmp_path / "sweep.toml"
    sweep.write_text('network = "trivial"\nengine = "clockwork"\njumps = [1, 2]\n')
    plan = json.loads(widened("sweep", str(sweep), "--dry-run", "--json"))
    assert [one["trial"]["jumps"] for one in plan["trials"]] == [1, 2]
    assert plan["trials"][0]["command"].endswith("--jumps 1")
    out = str(tmp_path / "results")
    quick = ("--budget", "30s", "--within", "any", "--rounds", "2", "--out", out)
    widened("bench", "trivial", "--engine", "clockwork", "--jumps", "1,2", *quick)
    listed = json.loads(widened("results", "list", "--where", "jumps=2", "--out", out, "--json"))
    assert [one["trial"]["jumps"] for one in listed["records"]] == [2]
    compared = json.loads(widened("compare", out, "--by", "jumps", "--json"))
    assert [one["values"] for one in compared["comparisons"]] == [["1", "2"]]
