"""Training goes on in another process, and in another engine."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import relay
from sameness import assert_close, same

from convdyno.engines.contract import OPTIONAL

HERE = Path(__file__).parent
ENGINES = ["torch", "jax", "tensorflow", "keras/torch", "keras/jax", "keras/tensorflow"]


def run(engine: str, folder: Path, *legs: str) -> None:
    command = [sys.executable, str(HERE / "relay.py"), engine, str(folder), *legs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]


def read(folder: Path, way: str, leg: str) -> dict[str, np.ndarray]:
    return dict(np.load(folder / f"{way}-{leg}.npz"))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_new_process_goes_on_to_the_bit(engine, tmp_path):
    run(engine, tmp_path, ":whole:5", ":half:3")
    run(engine, tmp_path, "half:rest:2")
    for way in relay.WAYS:
        assert same(read(tmp_path, way, "rest"), read(tmp_path, way, "whole")), way


@pytest.mark.slow
@pytest.mark.long
def test_every_engine_hands_on_to_the_next(tmp_path):
    """From the first to the last they stay with the reference, in float64.

    That each goes on from the reference is seen sooner: `sameness.check_takes_over`.
    """
    start = ""
    for leg, engine in enumerate(ENGINES, 1):
        run(engine, tmp_path, f"{start}:leg{leg}:2")
        start = f"leg{leg}"
    relay.main("reference", str(tmp_path), f":whole:{2 * len(ENGINES)}")
    for way in ("sgd", "adam"):
        expected, found = read(tmp_path, way, "whole"), read(tmp_path, way, f"leg{len(ENGINES)}")
        assert int(found["updates"]) == 2 * len(ENGINES)
        for name, array in expected.items():
            if not name.startswith(OPTIONAL):
                assert_close(found[name], array, 3e-5, f"{way} {name}")
    assert int(read(tmp_path, "dropout", f"leg{len(ENGINES)}")["updates"]) == 2 * len(ENGINES)
