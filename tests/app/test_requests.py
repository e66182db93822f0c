"""The application without a command line: requests in, results out, and not a word printed."""

import dataclasses
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from small_photos import photos

from convdyno.app import BenchRequest, GateRequest, Result, SweepRequest, bench, gate, sweep
from convdyno.app.benchmark import command_of
from convdyno.errors import UnknownName, UsageError

FAST = {"engine": "clockwork"}


def test_a_benchmark_is_a_request_and_a_result(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    request = BenchRequest(
        network="trivial", budget="60s", within="50%", rounds=2, out=tmp_path,
        axes=FAST | {"batch": [1, 2]},
    )  # fmt: skip
    result = bench(request)
    assert isinstance(result, Result)
    assert [row.trial.batch for row in result.rows] == [1, 2]
    assert result.records[0].command.startswith("convdyno bench trivial --engine clockwork")
    assert capfd.readouterr() == ("", "")
    assert "images/s" in str(result)


def test_a_failure_is_a_result_and_silent_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = FAST | {"device": "fail=crash;at=9"}
    result = bench(BenchRequest(network="trivial", budget="30s", out=tmp_path, axes=given))
    assert [row.status for row in result.rows] == ["failed"]
    assert capfd.readouterr() == ("", "")


def test_a_sweep_and_a_gate_need_no_command_line_either(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(
        'network = "trivial"\nengine = "clockwork"\nbatch = [1, 2]\nbudget = "30s"\n'
        'within = "50%"\nrounds = 2\n'
    )
    done = sweep(SweepRequest(file=file, out=tmp_path / "swept"))
    assert [one.standing for one in done.agenda.planned] == ["done", "done"]
    held = gate(
        GateRequest(
            network="trivial", axes=FAST, base_set="layout=nchw", within="90%", budget="60s",
            floor=False, rounds=2, out=tmp_path / "gated",
        )
    )  # fmt: skip
    assert len(held.gates) == 1
    assert capfd.readouterr() == ("", "")


def test_it_works_in_a_thread_of_a_server(tmp_path: Path) -> None:
    found: list[Result] = []
    request = BenchRequest(
        network="trivial", budget="60s", within="50%", rounds=2, out=tmp_path, axes=FAST
    )
    thread = threading.Thread(target=lambda: found.append(bench(request)))
    thread.start()
    thread.join()
    assert [result.ok for result in found] == [True]


def test_a_sweep_works_there_too(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text('network = "trivial"\nengine = "clockwork"\nwithin = "any"\nrounds = 1\n')
    found: list[str] = []
    request = SweepRequest(file=file, out=tmp_path / "swept")
    thread = threading.Thread(
        target=lambda: found.extend(one.standing for one in sweep(request).agenda.planned)
    )
    thread.start()
    thread.join()
    assert found == ["done"]


def test_data_are_what_they_are_now(tmp_path: Path) -> None:
    """A program may write into a data set between two requests."""
    request = BenchRequest(
        network="trivial", rounds=1, within="any", out=tmp_path / "results",
        axes=FAST | {"data": str(tmp_path / "photos"), "batch": 2, "image_size": 16},
    )  # fmt: skip
    photos(tmp_path / "photos", ["cat", "dog"])
    assert [row.trial.classes for row in bench(request).rows] == [2]
    shutil.rmtree(tmp_path / "photos")
    photos(tmp_path / "photos", ["cat", "dog", "owl"])
    assert [row.trial.classes for row in bench(request).rows] == [3]


def test_a_request_is_frozen_and_knows_its_options() -> None:
    request = BenchRequest.of(network="trivial", batch=[8, 16], budget=20, labels={"gpu": "k80"})
    assert (request.axes, request.budget) == ({"batch": [8, 16]}, 20)
    assert command_of(request) == (
        "convdyno bench trivial --batch 8,16 --budget 20 --label gpu=k80"
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.budget = 30  # type: ignore[misc]
    with pytest.raises(UnknownName, match="Did you mean 'batch'"):
        BenchRequest.of(network="trivial", bacth=8)
    with pytest.raises(UsageError, match="which network"):
        bench(BenchRequest())


def test_nothing_measured_shows_itself_all_the_same() -> None:
    assert "nothing" in Result([])._repr_html_()
    assert str(Result([])) == "nothing was measured"


def test_importing_requests_imports_no_library() -> None:
    code = (
        "import sys\n"
        "from convdyno.app import BenchRequest, TrainRequest\n"
        "assert not {'typer', 'pydantic', 'numpy', 'rich'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
