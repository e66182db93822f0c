"""Certificates of several devices: ranks of a real engine, right and with faults put into them."""

import sys
from pathlib import Path
from typing import Any

import pytest

from convdyno.engines.registry import installed_frameworks
from convdyno.stage import certify
from convdyno.store.certificate import EngineProof
from convdyno.trial.manner import Manner, UpdateRule
from convdyno.trial.spec import make_trial
from convdyno.zoo.registry import small_form

pytestmark = pytest.mark.slow

TOGETHER = Manner(devices=2)
FAULTS = {
    "not exchanged": "DistributedDataParallel = lambda module, **more: module",
    "added": """
def parallel(module, trial, on, **more):
    def add(group, bucket):
        whole = distributed.all_reduce(bucket.buffer(), async_op=True).get_future()
        return whole.then(lambda done: done.value()[0])
    wrapped = DistributedDataParallel(module, **more)
    wrapped.register_comm_hook(None, add)
    return wrapped
""",
}
FAULTY_WORKER = """
from convdyno.engines.frameworks.torch import ranks
from convdyno.run import worker
exec({fault!r}, ranks.__dict__)
worker.main()
"""


def prove(network: str, manner: Manner, *engines: str) -> tuple[EngineProof, ...]:
    blueprint = small_form(network)
    about = (network, "small", blueprint.to_json(), blueprint.digest, blueprint.parameters)
    with certify.Examination([certify.Candidate(name, "") for name in engines]) as examination:
        return examination.certify(certify.Subject(*about), manner).engines


@pytest.mark.parametrize("engine", installed_frameworks())
def test_devices_together_take_the_steps_of_one(engine: str) -> None:
    (proof,) = prove("resnet20", TOGETHER, engine)
    assert proof.reason == ""
    assert {"memory", "update", "statistics"} <= {finding.kind for finding in proof.findings}


@pytest.mark.parametrize("rule", [UpdateRule(kind="adam"), UpdateRule(clip_norm=True, ema=True)])
def test_any_rule_and_parts_of_a_batch(rule: UpdateRule) -> None:
    (proof,) = prove("resnet20", Manner(devices=2, accumulate=2, rule=rule), "torch")
    assert proof.reason == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_an_exchange_that_is_wrong_is_caught_and_named(
    fault: str, monkeypatch: Any, tmp_path: Path
) -> None:
    worker = tmp_path / "faulty_worker.py"
    worker.write_text(FAULTY_WORKER.format(fault=FAULTS[fault]))
    monkeypatch.setattr(certify, "WORKER", (sys.executable, str(worker)))
    (proof,) = prove("deepmnist", TOGETHER, "torch")
    assert not proof.passed
    assert "what 2 devices make of their gradients is wrong (memory, update)" in proof.reason


def test_a_trial_on_several_devices_asks_for_a_certificate_of_its_own() -> None:
    alone = {"network": "resnet20", "engine": "torch", "batch": 8}
    assert Manner.of(make_trial(**alone, devices=4)) == TOGETHER
    assert Manner.of(make_trial(**alone, devices=4, exchange="independent")) == Manner()
    assert Manner.of(make_trial(**alone, devices=4, mode="infer")) == Manner()
    assert "devices 2" in TOGETHER.words
