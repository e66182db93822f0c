"""A network of each family, and every miniature, is the same in every engine."""

import pytest
from miniatures import MINIATURES

from convdyno.blueprint.graph import Blueprint
from convdyno.engines import registry
from convdyno.stage.certify import Candidate, Examination, Subject
from convdyno.zoo.registry import small_form

pytestmark = pytest.mark.slow

NETWORKS = (
    "trivial", "deepmnist", "alexnet-lrn", "overfeat", "vgg11", "googlenet", "resnet18",
    "resnet20", "resnet50-v1.5", "resnet50-v2", "resnext50", "inception3",
)  # fmt: skip
"""One of each family, because XLA takes up to a minute to compile a deep one."""
SUBJECTS = {name: lambda name=name: small_form(name) for name in NETWORKS} | MINIATURES


@pytest.fixture(scope="module")
def examination():
    """One live worker an engine for all networks; a worker that is lost is replaced."""
    candidates = [Candidate(name, "") for name in registry.installed_frameworks()]
    with Examination(candidates, "native") as made:
        yield made


@pytest.mark.parametrize("name", SUBJECTS)
def test_all_engines_compute_the_same(examination: Examination, name: str) -> None:
    blueprint: Blueprint = SUBJECTS[name]()
    subject = Subject(name, "small", blueprint.to_json(), blueprint.digest, blueprint.parameters)
    certificate = examination.certify(subject)
    assert {p.engine: p.reason for p in certificate.engines if not p.passed} == {}


def test_all_six_engines_took_part() -> None:
    assert registry.installed_frameworks() == [
        "torch", "jax", "tensorflow", "keras/torch", "keras/jax", "keras/tensorflow",
    ]  # fmt: skip
