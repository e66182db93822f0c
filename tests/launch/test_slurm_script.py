"""The script of a job is bash that does what was asked, and nothing that data or users spell."""

import os
import subprocess
from pathlib import Path

import pytest

from convdyno.errors import UsageError
from convdyno.launch.slurm_script import Errand, Surroundings, in_job, script

NASTY = 'it\'s "a" $(touch evil) `touch evil` ;touch evil&b'


def errand(folder: Path, **values: object) -> Errand:
    plain = {
        "name": "convdyno-run-1",
        "what": "deepmnist\n$(touch evil)",
        "header": {"partition": "GPU", "exclusive": "", "comment": NASTY},
        "step": {"gres": "gpu:k80:2"},
        "tasks": 2,
        "words": ["deepmnist", "--data", NASTY, "--batch", "50"],
        "stage": None,
        "files": folder / "1",
    }
    return Errand(**(plain | values))  # type: ignore[arg-type]


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Programs that write down what they are given, in place of those that a job calls."""
    folder = tmp_path / "tools"
    folder.mkdir()
    shown = 'printf "%s\\n" "$@" >"$SHOWN"'
    for name, body in {"srun": shown, "scontrol": "true", "python": "true"}.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    return folder


def run(text: str, tools: Path, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"SHOWN": str(folder / "shown"), "SLURM_JOB_ID": "17", **more}
    environment["PATH"] = f"{tools}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_nothing_that_was_given_is_executed(tmp_path: Path, tools: Path) -> None:
    work = tmp_path / "a b'c"
    work.mkdir()
    around = Surroundings(work, str(tools / "python"))
    text = script(errand(work), around)
    done = run(text, tools, work)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("evil"))
    words = (work / "shown").read_text().splitlines()
    assert words[:3] == ["--mpi=none", "--ntasks=2", "--gres=gpu:k80:2"]
    assert words[words.index("--data") + 1] == NASTY
    assert words[-2:] == ["--out", f"{work}/1/17-0"]


def test_beginning_and_end_are_marked(tmp_path: Path, tools: Path) -> None:
    (tools / "srun").write_text("#!/bin/bash\nexit 5\n")
    done = run(
        script(errand(tmp_path), Surroundings(tmp_path, str(tools / "python"))), tools, tmp_path,
        SLURM_RESTART_COUNT="1",
    )  # fmt: skip
    assert done.returncode == 5
    begin, end = (tmp_path / "1.marks").read_text().splitlines()
    assert begin.split()[:3] == ["begin", "17", "1"]
    assert end.split()[:4] == ["end", "17", "1", "5"]


def test_a_folder_may_begin_with_a_variable_of_the_job(tmp_path: Path, tools: Path) -> None:
    around = Surroundings(tmp_path, str(tools / "python"))
    text = script(errand(tmp_path, stage=("local", "$LOCAL/my data")), around)
    assert run(text, tools, tmp_path, LOCAL="/fast disk").returncode == 0
    words = (tmp_path / "shown").read_text().splitlines()
    assert words[words.index("--stage-from") + 1] == "local=/fast disk/my data"
    unset = run(text, tools, tmp_path)
    assert unset.returncode != 0
    assert "LOCAL: is not set on this node" in unset.stderr


@pytest.mark.parametrize(
    ("folder", "word"),
    [
        ("$LOCAL", '"${LOCAL:?is not set on this node}"'),
        ("${SCRATCH}/x", '"${SCRATCH:?is not set on this node}"/x'),
        ("/a b", "'/a b'"),
        ("$(touch evil)", "'$(touch evil)'"),
        ("$LOCAL$(touch evil)", "'$LOCAL$(touch evil)'"),
        ("$LOCAL/$(touch evil)", "\"${LOCAL:?is not set on this node}\"'/$(touch evil)'"),
    ],
)
def test_only_a_leading_variable_is_filled_in(folder: str, word: str) -> None:
    assert in_job(folder) == word


def test_modules_and_a_setup_file_come_first(tmp_path: Path, tools: Path) -> None:
    setup = tmp_path / "set up.sh"
    around = Surroundings(tmp_path, str(tools / "python"), ("cuda/12; touch evil",), setup)
    lines = script(errand(tmp_path), around).splitlines()
    load, read = "module load 'cuda/12; touch evil' || exit", f". '{setup}' || exit"
    assert lines.index(load) < lines.index(read) < lines.index("date")


def test_a_log_is_where_it_should_be_whatever_its_name(tmp_path: Path) -> None:
    text = script(errand(tmp_path / "50%j done"), Surroundings(tmp_path, "python"))
    assert f'#SBATCH --output="{tmp_path}/50%%j done/1.log"' in text
    with pytest.raises(UsageError, match="choose another folder"):
        script(errand(tmp_path / "a\\b"), Surroundings(tmp_path, "python"))
