"""Where tests of engines run, and what they keep between runs."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest
from keras_process import KerasProcess

from convdyno.engines import cpu

CACHE = Path(__file__).parents[2] / ".make" / "cache"
_CPU = sha256(" ".join(sorted(cpu.features())).encode()).hexdigest()[:8]

# Programs are small and run a few times here: XLA need not make them fast, and keeps what it has
# compiled by program, options and version; the processor's instructions are in the folder's name.
os.environ |= {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_COMPILATION_CACHE_DIR": str(CACHE / f"jax-{_CPU}"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    # On older processors TensorFlow leaves it out, and has fewer kernels then: no channels first.
    "TF_ENABLE_ONEDNN_OPTS": "1",
}


@pytest.fixture(scope="session")
def cache() -> Path:
    """Where tests keep what costs time, by all that it depends on."""
    return CACHE


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call a test of Keras in the process of its engine."""
    process = pyfuncitem.funcargs.get("process")
    if not isinstance(process, KerasProcess):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    module, test = pyfuncitem.module.__name__, pyfuncitem.originalname
    if wrong := process.call(module, test, arguments):
        pytest.fail(wrong, pytrace=False)
    return True
