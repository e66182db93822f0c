"""The lab as fixtures: `hosts` and `slurm`. Every test here needs it, and is marked so."""

import os
from collections.abc import Iterator
from pathlib import Path

import lab_slurm
import pytest
from lab import Lab, missing
from lab_slurm import Slurm, start_slurm


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.slow)


def need(why: str) -> None:
    """Do without what is missing, except in CI."""
    if why:
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    need(missing())
    lab = Lab.up()
    yield lab
    lab.down()


@pytest.fixture
def hosts(lab: Lab) -> Iterator[Lab]:
    """Three hosts, whole again after each test."""
    yield lab
    for host in lab:
        host.unshape()
        host.mend()


@pytest.fixture(scope="session")
def slurm(lab: Lab) -> Slurm:
    """Slurm on the three hosts."""
    need(missing(lab_slurm.PROGRAMS))
    return start_slurm(lab)
