"""Keras computes what the reference computes, on each backend in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ENGINES = ["keras/torch", "keras/jax", "keras/tensorflow"]


def run_suite(engine: str, marked: str) -> None:
    command = [sys.executable, "-m", "pytest", str(HERE / "keras_suite.py"), "-m", marked]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning"],
        env=os.environ | {"CONVDYNO_KERAS": engine},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_quick_to_see(engine):
    run_suite(engine, "not slow")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_what_takes_longer(engine):
    run_suite(engine, "slow")
