"""Whatever becomes of standard output: a sentence at most, and never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = "bench trivial --engine clockwork --within any --rounds 1"
PLAIN = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
FULL = "convdyno: standard output cannot be written: No space left on device\n"


def shell(
    folder: Path, line: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `convdyno` is this one."""
    script = f'set -o pipefail; convdyno() {{ "{sys.executable}" -m convdyno "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=os.environ | (env or {}), capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["list networks", "list engines --json", "--help"])
def test_a_full_output_is_a_sentence(tmp_path: Path, words: str, unbuffered: str) -> None:
    done = shell(tmp_path, f"convdyno {words} > /dev/full", {"PYTHONUNBUFFERED": unbuffered})
    assert (done.returncode, done.stderr) == (2, FULL)


def test_what_was_measured_is_kept_where_it_cannot_be_told(tmp_path: Path) -> None:
    done = shell(tmp_path, f"convdyno {BENCH} --quiet > /dev/full")
    assert (done.returncode, done.stderr) == (2, FULL)
    assert len(list((tmp_path / "results").glob("*.json"))) == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_may_leave(tmp_path: Path, unbuffered: str) -> None:
    line = "convdyno list networks | head -1"
    done = shell(tmp_path, line, {"PYTHONUNBUFFERED": unbuffered})
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)


@pytest.mark.parametrize("where", [">&-", "2>&-", "2> /dev/full", ">&- 2>&-"])
def test_a_benchmark_ends_well_where_nobody_listens(tmp_path: Path, where: str) -> None:
    done = shell(tmp_path, f"convdyno {BENCH} {where}")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert len(list((tmp_path / "results").glob("*.json"))) == 1


@pytest.mark.parametrize("words", [f"{BENCH} --batch 1,2", "list networks", "bench --help"])
def test_a_terminal_may_have_plain_letters_only(tmp_path: Path, words: str) -> None:
    done = shell(tmp_path, f"convdyno {words}", PLAIN)
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "Traceback" not in done.stderr


def test_a_name_with_other_letters_is_answered_on_it(tmp_path: Path) -> None:
    done = shell(tmp_path, "convdyno bench rés", PLAIN)
    assert done.returncode == 2
    assert "no network is called" in done.stderr
