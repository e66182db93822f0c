"""Every network of the zoo, and every miniature, is the same in every engine.

XLA takes up to a minute for a deep network. So one of each family is compiled as it is when it is
timed, and all others run through the same lowering op by op, where XLA meets each shape once.
"""

import pytest
from miniatures import MINIATURES

from convdyno.blueprint.graph import Blueprint
from convdyno.engines import registry
from convdyno.stage.certify import Candidate, Examination, Subject
from convdyno.zoo.registry import networks, small_form

pytestmark = pytest.mark.slow

COMPILED = (
    "trivial", "deepmnist", "alexnet-lrn", "overfeat", "vgg11", "googlenet", "resnet18",
    "resnet20", "resnet50-v1.5", "resnet50-v2", "resnext50", "inception3",
)  # fmt: skip
"""One of each family."""


def examine(examination: Examination, name: str, blueprint: Blueprint) -> None:
    subject = Subject(name, "small", blueprint.to_json(), blueprint.digest, blueprint.parameters)
    certificate = examination.certify(subject)
    assert {p.engine: p.reason for p in certificate.engines if not p.passed} == {}


def candidates() -> list[Candidate]:
    return [Candidate(name, "") for name in registry.installed_frameworks()]


@pytest.fixture(scope="module")
def compiled():
    """One live worker an engine for all networks; a worker that is lost is replaced."""
    with Examination(candidates(), "native") as made:
        yield made


@pytest.fixture(scope="module")
def op_by_op():
    with Examination(candidates(), "native", brief=True) as made:
        yield made


@pytest.mark.parametrize("name", COMPILED)
def test_a_network_of_each_family(compiled: Examination, name: str) -> None:
    examine(compiled, name, small_form(name))


@pytest.mark.parametrize("name", MINIATURES)
def test_every_miniature(compiled: Examination, name: str) -> None:
    examine(compiled, name, MINIATURES[name]())


@pytest.mark.parametrize("name", [name for name in networks() if name not in COMPILED])
def test_every_other_network_of_the_zoo(op_by_op: Examination, name: str) -> None:
    examine(op_by_op, name, small_form(name))


def test_all_six_engines_took_part() -> None:
    assert registry.installed_frameworks() == [
        "torch", "jax", "tensorflow", "keras/torch", "keras/jax", "keras/tensorflow",
    ]  # fmt: skip
