"""A certificate catches every fault of the table, and names the op or the part of the rule.

torch gets all of them in every change, the other engines a few of each kind; `make test-all` has
all of them on all engines.
"""

from collections.abc import Callable, Iterator
from typing import Any

import faults
import pytest
from fault_table import FAULTS
from faults import EQUAL, Faulty, Rewriting, sentence
from keras_process import KerasProcess

from convdyno.engines import registry
from convdyno.trial.manner import Manner

pytestmark = pytest.mark.slow

ENGINES = ["torch", "jax", "tensorflow", "keras/torch", "keras/jax", "keras/tensorflow"]
COVER = (
    "conv: padding moved down", "conv: bias left out", "norm: epsilon x 1.1 in training only",
    "norm: decay 0.89", "act: ReLU6 for ReLU", "pool: padding counted", "lrn: left out",
    "sgd: no weight decay", "smoothing: halved", "average: keeps 0.89", "adam: an epsilon 1 % more",
)  # fmt: skip
"""Of each kind of evidence and of what has to be named one."""


@pytest.fixture(scope="module")
def process(request: pytest.FixtureRequest) -> Iterator[KerasProcess]:
    """A process of one engine, in which the tests are called."""
    made = KerasProcess(request.param)
    yield made
    made.end()


def on(*engines: str) -> Callable[[Any], Any]:
    """Called in the process of each of these."""
    chosen = pytest.mark.parametrize("process", engines, indirect=True, ids=str)
    return lambda test: pytest.mark.usefixtures("process")(chosen(test))


def caught(engine: str, name: str) -> None:
    """The fault is seen, and named, where the right engine passes."""
    fault = next(fault for fault in FAULTS if fault.name == name)
    manner, right = Manner(rule=fault.rule), registry.load(engine)
    assert sentence(right, engine, fault.network, manner) == ""
    assert fault.named in sentence(Faulty(right, fault), engine, fault.network, manner)


@on("torch")
@pytest.mark.parametrize("name", [fault.name for fault in FAULTS])
def test_every_fault_is_caught_and_named(name: str) -> None:
    caught(faults.here(), name)


@on(*ENGINES[1:])
@pytest.mark.parametrize("name", COVER)
def test_a_fault_of_each_kind_in_every_engine(name: str) -> None:
    caught(faults.here(), name)


@pytest.mark.long
@on(*ENGINES[1:])
@pytest.mark.parametrize("name", [fault.name for fault in FAULTS if fault.name not in COVER])
def test_every_fault_in_every_engine(name: str) -> None:
    caught(faults.here(), name)


@on("torch")
@pytest.mark.parametrize("network", EQUAL)
def test_the_same_in_another_form_passes(network: str) -> None:
    unlike(faults.here(), network)


@pytest.mark.long
@on(*ENGINES[1:])
@pytest.mark.parametrize("network", EQUAL)
def test_the_same_in_another_form_passes_in_every_engine(network: str) -> None:
    unlike(faults.here(), network)


def unlike(engine: str, network: str) -> None:
    """No rewrite is taken for a fault."""
    right = registry.load(engine)
    for rewrite in EQUAL[network]:
        assert sentence(Rewriting(right, rewrite), engine, network, Manner()) == ""


def test_there_are_enough_faults_and_each_has_its_own_name() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 60
    assert {fault.name for fault in FAULTS} >= set(COVER)
