"""Every network of the zoo, and every miniature, is the same in every engine.

The whole zoo takes half an hour, so `make test-all` has it. For every change the cover of the zoo
stands for it: `zoo_cover.py` says why nothing that is lowered goes unseen. What the miniatures have
is not in it, because every engine's own tests compare all of them with the reference.
"""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
import zoo_cover
from miniatures import MINIATURES
from stored_reference import StoredReference
from zoo_cover import cover, signatures

from convdyno.blueprint.graph import Blueprint, Node
from convdyno.blueprint.ops import Conv
from convdyno.engines import registry
from convdyno.stage import certify
from convdyno.stage.certify import Candidate, Examination, Subject
from convdyno.zoo.registry import build, networks, small_form

pytestmark = pytest.mark.slow

PARTS = 20
"""The cover has some more networks than that; which ones is known only after a few seconds."""
SEEDS = 5
"""Of weights and images; all other tests have the first."""
COMPILED = (
    "trivial", "deepmnist", "alexnet-lrn", "overfeat", "vgg11", "googlenet", "resnet18",
    "resnet20", "resnet50-v1.5", "resnet50-v2", "resnext50", "inception3",
)  # fmt: skip
"""One of each family; XLA takes up to a minute for a deep one."""


def examine(examination: Examination, name: str, blueprint: Blueprint, seed: int = 0) -> None:
    about = (blueprint.to_json(), blueprint.digest, blueprint.parameters)
    certificate = examination.certify(Subject(name, "small", *about, seed))
    assert {p.engine: p.reason for p in certificate.engines if not p.passed} == {}, name


def candidates() -> list[Candidate]:
    return [Candidate(name, "") for name in registry.installed_frameworks()]


@pytest.fixture(scope="module")
def examination(request: pytest.FixtureRequest, cache: Path) -> Iterator[Examination]:
    """One live worker an engine for all networks; a worker that is lost is replaced.

    A fixture with a parameter, so that there is only one at a time: each needs 5 GB.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "as timed":
            patch.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS")
        patch.setattr(certify, "SILENCE_SECONDS", 3600.0)  # The machine may be busy.
        brief = request.param == "op by op"
        with Examination(candidates(), brief=brief) as made:
            made._workers["reference"] = StoredReference(cache / "reference")
            yield made


def examined(how: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("examination", [how], indirect=True)


def calm(blueprint: Blueprint) -> Blueprint:
    """As certificates ask for it."""
    return blueprint.without_dropout()


def narrow(name: str, size: tuple[int, int] | None = None, *, auxiliary: bool = False) -> Blueprint:
    """A network with as few channels as oneDNN can bear.

    Where a strided 1x1 convolution reads fewer than 16 channels, its backward pass writes out of
    bounds (https://github.com/uxlfoundation/oneDNN/issues/6035). The torch engine works around
    that, which `test_torch_same.py` holds; Keras on torch does not.
    """
    for width in (0.125, 0.25, 0.5):
        blueprint = build(name, size, 10, width, auxiliary)
        if not any(_writes_out_of_bounds(blueprint, node) for node in blueprint.nodes):
            return blueprint
    return build(name, size, 10, 1.0, auxiliary)


def _writes_out_of_bounds(blueprint: Blueprint, node: Node) -> bool:
    op = node.op
    strided = isinstance(op, Conv) and op.kernel == (1, 1) and op.stride != (1, 1)
    return strided and blueprint.shapes_in(node)[0][2] // op.groups < 16


@pytest.fixture(scope="module")
def zoo() -> list[Blueprint]:
    """The networks for the images of their certificates, and for their own, with all heads."""
    found = []
    for name, entry in networks().items():
        height, width, _ = small_form(name).image
        found += [narrow(name, (height, width)), narrow(name, auxiliary=entry.auxiliary)]
    return list(map(calm, found))


@pytest.fixture(scope="module")
def known() -> list[Blueprint]:
    return [calm(draw()) for draw in MINIATURES.values()]


@pytest.fixture(scope="module")
def short(zoo: list[Blueprint], known: list[Blueprint], cache: Path) -> list[Blueprint]:
    """The cover, kept by the networks that it is of and the way in which it is made."""
    made_of = [Path(zoo_cover.__file__).read_text(), *(b.digest for b in (*zoo, *known))]
    kept = cache / f"cover-{sha256(' '.join(made_of).encode()).hexdigest()[:16]}.json"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps([b.to_json() for b in cover(zoo, known)]))
        part.replace(kept)
    return [Blueprint.from_json(text) for text in json.loads(kept.read_text())]


def test_the_cover_has_everything_that_is_lowered_in_the_zoo(
    zoo: list[Blueprint], known: list[Blueprint], short: list[Blueprint]
) -> None:
    seen = frozenset[object]().union(*map(signatures, [*known, *short]))
    assert {b.name: lacking for b in zoo if (lacking := signatures(b) - seen)} == {}
    assert not any(_writes_out_of_bounds(b, node) for b in short for node in b.nodes)
    assert len(short) < len(zoo) / 4
    assert sum(len(b.nodes) for b in short) < sum(len(b.nodes) for b in zoo) / 10


@examined("quickly compiled")
@pytest.mark.parametrize("part", [*reversed(range(PARTS))])  # The first one starts the workers.
def test_everything_that_is_lowered_in_the_zoo(
    examination: Examination, short: list[Blueprint], part: int
) -> None:
    for blueprint in short[part::PARTS]:
        examine(examination, f"part of {blueprint.name}", blueprint)


@pytest.mark.long
@examined("as timed")
@pytest.mark.parametrize("name", COMPILED)
def test_a_network_of_each_family(examination: Examination, name: str) -> None:
    examine(examination, name, small_form(name))


@pytest.mark.long
@examined("as timed")
@pytest.mark.parametrize("name", MINIATURES)
def test_every_miniature(examination: Examination, name: str) -> None:
    examine(examination, name, MINIATURES[name]())


@pytest.mark.long
@examined("op by op")
@pytest.mark.parametrize("name", [name for name in networks() if name not in COMPILED])
def test_every_other_network_of_the_zoo(examination: Examination, name: str) -> None:
    examine(examination, name, small_form(name))


@pytest.mark.long
@examined("op by op")
@pytest.mark.parametrize("seed", range(1, SEEDS))
@pytest.mark.parametrize("name", networks())
def test_no_alarm_is_false_whatever_the_weights(
    examination: Examination, name: str, seed: int
) -> None:
    examine(examination, name, small_form(name), seed)


def test_all_six_engines_took_part() -> None:
    assert registry.installed_frameworks() == [
        "torch", "jax", "tensorflow", "keras/torch", "keras/jax", "keras/tensorflow",
    ]  # fmt: skip
