"""Certificates hold for the same network, and fail, naming the op, for a broken lowering."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from schemas import keeps_to

from convdyno.blueprint.graph import Blueprint, Node
from convdyno.blueprint.ops import Conv, Norm
from convdyno.engines import registry
from convdyno.errors import TrialFailed
from convdyno.run.worker import Worker
from convdyno.stage import certify
from convdyno.store.certificate import Certificate, EngineProof
from convdyno.zoo.registry import small_form


class InThisProcess:
    """A worker without a process, so that a test can reach into its engine."""

    def __init__(self, environment: object = None) -> None:
        self._out = io.StringIO()
        self._worker = Worker(self._out)

    def ask(self, do: str, *, silence: float, **more: Any) -> Any:
        self._out.truncate(0)
        self._out.seek(0)
        try:
            getattr(self._worker, do)(**more)
        except Exception as error:
            raise TrialFailed("failed", str(error)) from error
        return json.loads(self._out.getvalue().splitlines()[-1])

    def end(self) -> None:
        pass


class Sloppy:
    """torch, lowering some ops otherwise than the blueprint says."""

    def __init__(self, torch: Any, misread: Callable[[Node], Node]) -> None:
        self._torch, self._misread = torch, misread

    def open(self, blueprint: Blueprint, trial: Any, weights: Any) -> Any:
        nodes = tuple(map(self._misread, blueprint.nodes))
        return self._torch.open(replace(blueprint, nodes=nodes), trial, weights)

    def out_of_memory(self, error: BaseException) -> bool:
        return False


def misread(node: Node, name: str, **values: Any) -> Node:
    return replace(node, op=replace(node.op, **values)) if node.name == name else node


def prove(monkeypatch: Any, network: str, misreading: Callable[[Node], Node]) -> EngineProof:
    load, sloppy = registry.load, Sloppy(registry.load("torch"), misreading)
    monkeypatch.setattr(certify, "LocalWorker", InThisProcess)
    monkeypatch.setattr(registry, "load", lambda name: sloppy if name == "torch" else load(name))
    blueprint = small_form(network)
    subject = certify.Subject(
        network, "small", blueprint.to_json(), blueprint.digest, blueprint.parameters
    )
    with certify.Examination([certify.Candidate("torch", "")]) as examination:
        (proof,) = examination.certify(subject).engines
    return proof


def test_reading_the_blueprint_as_it_is_passes(monkeypatch: Any) -> None:
    assert prove(monkeypatch, "resnet20", lambda node: node).passed


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"pad": (2, 0, 1, 1)}, "'conv3_2/conv1' (Conv)"),
        ({"pad": (1, 1, 0, 2)}, "'conv3_2/conv1' (Conv)"),
    ],
    ids=str,
)
def test_a_broken_lowering_is_caught_and_the_op_named(
    monkeypatch: Any, values: dict[str, Any], where: str
) -> None:
    name = where.split("'")[1]
    proof = prove(monkeypatch, "resnet20", lambda node: misread(node, name, **values))
    assert not proof.passed
    assert f"the values differ from {where} on" in proof.reason


def test_a_stride_in_the_wrong_place_is_caught_and_the_op_named(monkeypatch: Any) -> None:
    strides = {"conv3_1/conv1": (1, 1), "conv3_1/conv2": (2, 2)}

    def swap(node: Node) -> Node:
        return misread(node, node.name, stride=strides[node.name]) if node.name in strides else node

    nodes = {node.name: node.op for node in small_form("resnet50").nodes}
    assert isinstance(nodes["conv3_1/conv1"], Conv)
    assert nodes["conv3_1/conv1"].stride == (2, 2)
    proof = prove(monkeypatch, "resnet50", swap)
    assert not proof.passed
    assert "'conv3_1/conv1' (Conv)" in proof.reason


def test_a_wrong_epsilon_is_caught_and_the_first_norm_named(monkeypatch: Any) -> None:
    def coarse(node: Node) -> Node:
        return misread(node, node.name, eps=1e-3) if isinstance(node.op, Norm) else node

    proof = prove(monkeypatch, "resnet20", coarse)
    assert not proof.passed
    assert "'conv1/norm1' (Norm)" in proof.reason


def test_a_wrong_decay_shows_in_the_statistics(monkeypatch: Any) -> None:
    def forgetful(node: Node) -> Node:
        return misread(node, node.name, decay=0.99) if isinstance(node.op, Norm) else node

    proof = prove(monkeypatch, "resnet20", forgetful)
    assert not proof.passed
    assert [f.kind for f in proof.findings if not f.passed] == ["statistics"]


def test_the_command_certifies_stores_and_prints(convdyno: Any, tmp_path: Path) -> None:
    outcome = convdyno("certify", "resnet20,deepmnist", "--engine", "torch", "--json")
    assert outcome.code == 0
    assert keeps_to("certify", outcome.json)["passed"]
    assert [e["network"] for e in outcome.json["engines"]] == ["resnet20", "deepmnist"]
    stored = tmp_path / "results" / "certificates" / "resnet20-native.json"
    found = Certificate.model_validate_json(stored.read_text())
    assert found.passed
    assert found.hash == outcome.json["certificates"][0]["hash"]
    assert "the same" in convdyno("certify", "lenet", "--engine", "torch").out
