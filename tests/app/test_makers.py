"""A certificate holds for the code, versions and switches that made it, and for no others."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from convdyno.app import benchmark, certification, makers
from convdyno.app.makers import maker, sources
from convdyno.stage.certify import Subject
from convdyno.stage.progress import Narrator
from convdyno.store.certificate import UNKNOWN, Certificate, EngineProof
from convdyno.store.folder import Store
from convdyno.trial.manner import Manner, UpdateRule
from convdyno.trial.spec import Trial
from convdyno.zoo.registry import small_form


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources of our own, to change."""
    copied = tmp_path / "convdyno"
    shutil.copytree(makers.ROOT, copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(makers, "ROOT", copied)
    makers._digest.cache_clear()
    yield copied
    makers._digest.cache_clear()


@pytest.mark.parametrize(
    "file",
    ["engines/torch/lower.py", "engines/torch/update.py", "engines/frameworks/torch/device.py",
     "engines/reference_backward.py", "run/evidence.py", "stage/differences.py",
     "blueprint/ops.py"],
)  # fmt: skip
def test_a_change_in_what_computes_or_proves_is_another_maker(root: Path, file: str) -> None:
    before = sources("torch")
    path = root / file
    path.write_text(path.read_text() + "\n# Another line.\n")
    makers._digest.cache_clear()
    assert sources("torch") != before


def test_a_change_in_another_engine_is_none(root: Path) -> None:
    before = sources("torch")
    (root / "engines" / "jax" / "lower.py").write_text("")
    (root / "report" / "console.py").write_text("")
    makers._digest.cache_clear()
    assert sources("torch") == before
    assert sources("jax") != before


def test_keras_has_both_versions() -> None:
    assert set(maker("keras/jax").versions) == {"numpy", "keras", "jax", "jaxlib"}
    assert all(maker("keras/jax").versions.values())


def test_a_switch_that_changes_arithmetic_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    switches = maker("torch").switches
    assert switches["NVIDIA_TF32_OVERRIDE"] == "1"
    assert "TF_CPP_MIN_LOG_LEVEL" not in switches


class Examiner:
    """Finds that everybody computes the same, and counts how often it is asked."""

    asked = 0

    def __init__(self, candidates: Any, **_: Any) -> None:
        self._candidates = candidates

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def certify(self, subject: Subject, manner: Manner) -> Certificate:
        type(self).asked += 1
        proofs = tuple(
            EngineProof(engine=one.engine, passed=True, maker=one.maker) for one in self._candidates
        )
        return Certificate(
            network=subject.network, form="", digest=subject.digest, parameters=1, manner=manner,
            condition=0.0, engines=proofs, created="",
        )  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Certify trivial in a store, and say how often that was computed so far."""
    monkeypatch.setattr(certification, "Examination", Examiner)
    monkeypatch.setattr(Examiner, "asked", 0)

    def certify(store: Store, manner: Manner | None = None) -> int:
        wanted = [("trivial", manner or Manner())]
        list(certification.certificates(wanted, ["torch", "jax"], store))
        return Examiner.asked

    return certify


def test_a_stored_certificate_is_used_until_something_changes(
    asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    assert [asked(store), asked(store)] == [1, 1]
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert [asked(store), asked(store)] == [2, 2]
    monkeypatch.setattr(makers, "sources", lambda engine: "other code")
    assert [asked(store), asked(store)] == [3, 3]


def test_each_manner_has_a_certificate_of_its_own(asked: Any, tmp_path: Path) -> None:
    store = Store(tmp_path)
    manners = [Manner(), Manner(precision="bf16"), Manner(rule=UpdateRule(kind="adam"))]
    assert [asked(store, manner) for manner in manners * 2] == [1, 2, 3, 3, 3, 3]
    assert len(list((tmp_path / "certificates").glob("*.json"))) == 3


def test_a_certificate_of_the_first_schema_is_read_and_made_again(
    asked: Any, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    asked(store)
    path = tmp_path / "certificates" / "trivial-native.json"
    digest = small_form("trivial").digest
    path.write_text(
        '{"schema_version": 1, "network": "trivial", "form": "", "parameters": 1, '
        f'"digest": "{digest}", "kernels": "native", "condition": 0.0, "created": "", '
        '"engines": [{"engine": "torch", "passed": true, "version": "2.13.0+cpu"}]}'
    )
    earlier = store.certificate("trivial", Manner())
    assert earlier is not None
    assert earlier.manner == Manner()
    assert earlier.engines[0].maker == UNKNOWN
    assert asked(store) == 2


class Listener(Narrator):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def tell(self, line: str) -> None:
        self.told.append(line)


def test_bench_says_that_a_certificate_is_made_again(
    asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = [
        Trial.model_validate({"network": "trivial", "engine": engine, "batch": 4})
        for engine in ("torch", "jax")
    ]
    store, told = Store(tmp_path), []
    for code in ("old", "old", "new"):
        monkeypatch.setattr(makers, "sources", lambda engine, code=code: code)
        narrator = Listener()
        found = benchmark.certificates_of(trials, store, narrator)
        assert [proof.maker.sources for proof in found["trivial", Manner()].engines] == [code] * 2
        told.append(narrator.told)
    assert told[0] == ["certifying trivial (native): jax, torch ..."]
    assert told[1] == []
    assert "again, because code, versions or switches have changed" in told[2][0]
