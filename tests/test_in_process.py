"""Commands inside the tests' process do what they do in one of their own."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from convdyno.store.folder import Store

BENCH = ("bench", "mine:net", "--engine", "clockwork", "--image-size", "8", "--rounds", "1")
BENCH += ("--within", "50%", "--batch", "4,1000", "--device", "random=3;most=99")
NETWORK = """\
def net(net, classes):
    return net.image.conv_norm_relu({}, 3).mean().logits(classes).done()
"""


@pytest.mark.parametrize(
    "words",
    [
        ("show", "trivial", "--json"),
        ("bench", "resnt50"),
        ("bench", "--bacth", "3"),
        ("--version",),
    ],
    ids=" ".join,
)
def test_both_say_the_same(convdyno: Any, convdyno_process: Any, words: tuple[str, ...]) -> None:
    here, there = convdyno(*words), convdyno_process(*words)
    assert (here.code, here.out) == (there.code, there.out)
    assert here.err == there.err.replace("python -m convdyno", "convdyno")


def test_both_record_the_same(convdyno: Any, convdyno_process: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(NETWORK.format(4))
    seen = []
    for run, out in ((convdyno, "here"), (convdyno_process, "there")):
        assert run(*BENCH, "--out", out).code == 5, "the second cell does not fit"
        records = sorted(Store(tmp_path / out).records(), key=lambda record: record.trial.batch)
        seen.append([(r.trial, r.status, r.reason, r.network, r.settings) for r in records])
        pids = {process.pid for process in records[0].processes}
        assert (pids == {os.getpid()}) == (out == "here")
    assert seen[0] == seen[1]


def test_a_command_leaves_nothing_to_the_next(convdyno: Any, tmp_path: Path) -> None:
    before = Path.cwd(), list(sys.path), sys.argv, dict(os.environ), signal.getsignal(signal.SIGINT)
    parameters = set()
    for channels in (4, 8):
        (tmp_path / "mine.py").write_text(NETWORK.format(channels))
        told = convdyno("show", "mine:net", "--json", env=os.environ | {"COLUMNS": "70"})
        parameters.add(told.json["parameters"])
    assert len(parameters) == 2
    assert before == (
        Path.cwd(), sys.path, sys.argv, dict(os.environ), signal.getsignal(signal.SIGINT)
    )  # fmt: skip
