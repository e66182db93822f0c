"""Certificates: each engine in a process of its own, compared with the reference and so with all.

When the class scores differ, the network is cut in half again and again, until the op is found in
which the engine and the reference part.
"""

from __future__ import annotations

import datetime
import json
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Self

from safetensors.numpy import load_file

from convdyno.errors import TrialFailed
from convdyno.launch.local import LocalWorker
from convdyno.machine.processor import logical_cores
from convdyno.store.certificate import (
    TOLERANCES,
    Arrays,
    Certificate,
    EngineProof,
    Finding,
    distance,
    farthest,
)

SILENCE_SECONDS = 300.0
NODE_TOLERANCE = 1e-5
"""The distance from which a node's values count as different, when the first such is looked for:
smaller than that of the scores, because one op's mistake grows on its way there."""


@dataclass(frozen=True)
class Subject:
    """The small network that is computed, as text, and what it stands for."""

    network: str
    form: str
    blueprint: str
    digest: str
    parameters: int


@dataclass(frozen=True)
class Candidate:
    """An engine to be certified."""

    engine: str
    version: str


class Examination:
    """The reference and some engines, each in a live worker, ready to examine networks.

    A certificate computes and does not time, so the engines answer side by side. A brief one runs
    op by op and compares one update instead of the gradients and three.
    """

    def __init__(
        self, candidates: Iterable[Candidate], kernels: str, *, brief: bool = False
    ) -> None:
        self._candidates, self._kernels, self._brief = list(candidates), kernels, brief
        self._workers: dict[str, LocalWorker] = {}

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="convdyno-")
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.end()
        self._folder.cleanup()

    def certify(self, subject: Subject) -> Certificate:
        """Compute a network with the reference and with each engine, and compare."""
        # A worker ends with the thread that started it, so none is started by a thread of the pool.
        for engine in ("reference", *(c.engine for c in self._candidates)):
            if engine not in self._workers:
                self._workers[engine] = LocalWorker()
        case = _Case(subject, Path(self._folder.name), self._workers, self._kernels, self._brief)
        condition = case.pose()
        with ThreadPoolExecutor(logical_cores()) as pool:
            proofs = tuple(pool.map(case.examine, self._candidates))
        for lost in case.lost:
            self._workers.pop(lost).end()
        return Certificate(
            network=subject.network,
            form=subject.form,
            digest=subject.digest,
            parameters=subject.parameters,
            kernels=self._kernels,
            condition=condition,
            engines=proofs,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )


@dataclass
class _Case:
    """One subject, the reference's answer to it, and the files in between."""

    subject: Subject
    folder: Path
    workers: dict[str, LocalWorker]
    kernels: str
    brief: bool
    lost: list[str] = field(default_factory=list)
    """Engines whose worker is of no more use."""
    _oracle: Lock = field(default_factory=Lock)

    def pose(self) -> float:
        """Have the reference choose weights and answer; how well conditioned they are."""
        self._question = str(self.folder / "question.safetensors")
        ask: dict[str, Any] = {"blueprint": self.subject.blueprint, "to": self._question}
        posed = self.workers["reference"].ask("pose", silence=SILENCE_SECONDS, **ask)
        self._weights = load_file(self._question)
        self._expected = self._answer("reference")
        return float(posed["condition"])

    def examine(self, candidate: Candidate) -> EngineProof:
        """What is found about one engine; a crash or a refusal is a finding too."""
        findings: tuple[Finding, ...] = ()
        try:
            findings = self._compare(self._answer(candidate.engine))
            failed = [finding for finding in findings if not finding.passed]
            reasons = [_sentence(finding) for finding in failed]
            if any(finding.kind == "forward" for finding in failed):
                reasons.insert(0, self._first_difference(candidate.engine))
        except TrialFailed as failure:
            reasons = [str(failure)]
            self.lost.append(candidate.engine)
        return EngineProof(
            engine=candidate.engine,
            version=candidate.version,
            passed=not reasons,
            reason="; ".join(reasons),
            findings=findings,
        )

    def _answer(self, engine: str, node: str | None = None) -> Arrays:
        path = self.folder / f"{engine.replace('/', '-')}.safetensors"
        self.workers[engine].ask(
            "answer",
            silence=SILENCE_SECONDS,
            engine=engine,
            kernels="native" if engine == "reference" else self.kernels,
            node=node,
            brief=self.brief,
            blueprint=self.subject.blueprint,
            question=self._question,
            to=str(path),
        )
        return load_file(path)

    def _compare(self, found: Arrays) -> tuple[Finding, ...]:
        findings = []
        for kind, tolerance in TOLERANCES.items():
            expected, mine = self._part(self._expected, kind), self._part(found, kind)
            if not expected:
                continue
            shapes = [{name: a.shape for name, a in part.items()} for part in (mine, expected)]
            if shapes[0] != shapes[1]:
                off, where = float("inf"), "other names or shapes"
            else:
                off, where = distance(mine, expected), farthest(mine, expected)
            findings.append(Finding(kind=kind, distance=off, tolerance=tolerance, where=where))
        return tuple(findings)

    def _part(self, evidence: Arrays, kind: str) -> Arrays:
        """The arrays that one kind of finding is about."""
        match kind:
            case "forward":
                return {"logits": evidence["logits"]}
            case "loss":
                return {"loss": evidence["loss"]}
            case "gradient":
                return _group(evidence, "gradient/")
        # How far each weight, or each running statistic, was moved by the steps.
        return {
            name: array - self._weights[name]
            for name, array in _group(evidence, "after/").items()
            if name.endswith(("/mean", "/variance")) == (kind == "statistics")
            and name in self._weights
        }

    def _first_difference(self, engine: str) -> str:
        """The first node whose values differ, found by halving."""
        blueprint = json.loads(self.subject.blueprint)
        nodes = blueprint["nodes"]
        names = [node["name"] for node in nodes]
        good, bad = 0, names.index(blueprint["heads"][0][0])
        while bad - good > 1:
            middle = (good + bad) // 2
            with self._oracle:
                expected = self._answer("reference", node=names[middle])
            found = self._answer(engine, node=names[middle])
            same = found["logits"].shape == expected["logits"].shape
            same = same and distance(found, expected) <= NODE_TOLERANCE
            good, bad = (middle, bad) if same else (good, middle)
        node = nodes[bad]
        return f"the values differ from {node['name']!r} ({node['op']}) on"


def _group(evidence: Arrays, prefix: str) -> Arrays:
    return {n.removeprefix(prefix): a for n, a in evidence.items() if n.startswith(prefix)}


def _sentence(finding: Finding) -> str:
    return (
        f"{finding.kind} is {finding.distance:.2g} away from the reference "
        f"(at most {finding.tolerance:g}), most at {finding.where!r}"
    )
