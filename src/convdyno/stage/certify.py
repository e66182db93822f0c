"""Certificates: each engine in a process of its own, compared with the reference and so with all.

Where an engine is off, `culprit` finds the op or the part of the update rule in which it parts
from the reference.
"""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Self

from safetensors.numpy import load_file

from convdyno.errors import TrialFailed
from convdyno.launch.launcher import Team
from convdyno.launch.local import LocalWorker, places
from convdyno.launch.transport import WORKER, PipeLink
from convdyno.launch.worker_group import WorkerGroup
from convdyno.machine.processor import logical_cores
from convdyno.stage.culprit import Suspicion
from convdyno.stage.differences import Arrays, Difference, differences, findings, unseen
from convdyno.store.certificate import (
    UNKNOWN,
    Certificate,
    Coverage,
    EngineProof,
    Finding,
    Maker,
)
from convdyno.trial.manner import Manner
from convdyno.trial.spec import make_trial
from convdyno.trial.suspects import suspects

SILENCE_SECONDS = 300.0
RANK_SECONDS = 100.0
"""After so long without a sign of life one of several devices counts as lost."""
MATTERS = 10.0
"""How many limits the loss has to move by, if an op is left out, for the op to count as seen."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""For NumPy, whose matrices are small here: threads that wait for each other cost more."""


@dataclass(frozen=True)
class Subject:
    """The small network that is computed, as text, and what it stands for."""

    network: str
    form: str
    blueprint: str
    digest: str
    parameters: int
    seed: int = 0
    """Of the weights and images."""


@dataclass(frozen=True)
class Candidate:
    """An engine to be certified."""

    engine: str
    version: str
    maker: Maker = UNKNOWN


class Examination:
    """The reference and some engines, each in live workers, ready to examine networks.

    A certificate computes and does not time, so the engines answer side by side. A brief one runs
    op by op, and shows the gradients by what the steps make of them.
    """

    def __init__(
        self, candidates: Iterable[Candidate], *, brief: bool = False, coverage: bool = False
    ) -> None:
        self._candidates, self._brief, self._coverage = list(candidates), brief, coverage
        self._workers: dict[str, Team] = {}

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="convdyno-")
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.end()
        self._folder.cleanup()

    def certify(self, subject: Subject, manner: Manner | None = None) -> Certificate:
        """Compute a network with the reference and with each engine, and compare."""
        manner = manner or Manner()
        # A worker ends with the thread that started it, so none is started by a thread of the pool.
        workers = {"reference": self._started("reference", Manner())}
        workers |= {c.engine: self._started(c.engine, manner) for c in self._candidates}
        case = _Case(subject, Path(self._folder.name), workers, manner, self._brief)
        case.pose()
        with ThreadPoolExecutor(logical_cores()) as pool:
            proofs = tuple(pool.map(case.examine, self._candidates))
        for lost in set(case.lost):
            workers[lost].end()
            self._workers.pop(_together(lost, manner))
        return Certificate(
            network=subject.network,
            form=subject.form,
            digest=subject.digest,
            parameters=subject.parameters,
            manner=manner,
            condition=case.condition,
            unseen=tuple(case.unseen),
            coverage=tuple(case.coverage) if self._coverage else (),
            engines=proofs,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )

    def _started(self, engine: str, manner: Manner) -> Team:
        """Those who answer for an engine: one worker, or one for each device."""
        name = _together(engine, manner)
        if name not in self._workers:
            self._workers[name] = _start(engine, manner)
        return self._workers[name]


@dataclass
class _Case:
    """One subject, the reference's answer to it, and the files in between."""

    subject: Subject
    folder: Path
    workers: dict[str, Team]
    manner: Manner
    brief: bool
    lost: list[str] = field(default_factory=list)
    """Engines whose worker is of no more use."""
    condition: float = 0.0
    unseen: list[str] = field(default_factory=list)
    coverage: list[Coverage] = field(default_factory=list)
    _oracle: Lock = field(default_factory=Lock)

    def pose(self) -> None:
        """Have the reference choose weights and answer."""
        self._expected = self._truth(None)
        idle = (one for one in self.coverage if one.share == 1 and one.moved < MATTERS)
        self.unseen = [*unseen(self._expected), *(f"{one.node}: {one.change}" for one in idle)]

    def examine(self, candidate: Candidate) -> EngineProof:
        """What is found about one engine; a crash or a refusal is a finding too."""
        found: tuple[Finding, ...] = ()
        reasons: list[str] = []
        engine = candidate.engine
        try:
            got = self._most_off(self._answers(engine, None), self._expected)
            rows = differences(got, self._expected)
            found = findings(rows)
            reasons = [_sentence(finding) for finding in found if not finding.passed]
            if reasons:
                look = partial(self._differences, engine)
                seen = (self.subject.blueprint, rows, got, self._expected)
                suspicion = Suspicion(*seen, look, self._suspects, self.manner.devices)
                reasons.insert(0, suspicion.culprit())
        except TrialFailed as failure:
            reasons = [str(failure)]
            self.lost.append(engine)
        return EngineProof(
            engine=engine,
            version=candidate.version,
            maker=candidate.maker,
            passed=not reasons,
            reason="; ".join(reasons),
            findings=found,
        )

    def _differences(self, engine: str, node: str) -> list[Difference]:
        """How far an engine is off in the network up to a node."""
        with self._oracle:
            expected = self._truth(node)
        try:
            return differences(self._most_off(self._answers(engine, node), expected), expected)
        except TrialFailed:
            # What does not even fit is wrong too. The new worker ends with this thread.
            self.workers[engine].end()
            self.workers[engine] = _start(engine, self.manner)
            self.lost.append(engine)
            return [Difference("forward", node, float("inf"), 0.0)]

    def _answers(self, engine: str, node: str | None, suspect: str = "") -> list[Arrays]:
        """What an engine computes, by each of its ranks."""
        path = self.folder / f"{engine.replace('/', '-')}.safetensors"
        brief = self.brief and node is None
        self._ask(engine, "answer", node, to=str(path), brief=brief, suspect=suspect)
        alone = engine == "reference"
        others = range(1, 1 if alone else self.manner.devices)
        return [load_file(path), *(load_file(f"{path}.{rank}") for rank in others)]

    @staticmethod
    def _most_off(answers: list[Arrays], expected: Arrays) -> Arrays:
        """Of the ranks' answers the one that is farthest from what is right."""
        return max(answers, key=lambda one: max(d.ratio for d in differences(one, expected)))

    def _suspects(self) -> dict[str, Arrays]:
        """What the reference gets by rules that are wrong in one part."""
        with self._oracle:
            parts = suspects(self.manner)
            return {part: self._answers("reference", None, part)[0] for part in parts}

    def _truth(self, node: str | None) -> Arrays:
        """What is right, with its limits, and the question written to its file."""
        path = self.folder / "expected.safetensors"
        whole = str(self.folder / "question.safetensors")
        about = {"to": str(path), "whole": whole, "seed": self.subject.seed}
        said = self._ask("reference", "pose", node, **about)
        if node is None:
            self.condition = float(said["condition"])
            self.coverage = [Coverage.model_validate(one) for one in said["coverage"]]
        return load_file(path)

    def _ask(self, engine: str, do: str, node: str | None, **more: Any) -> dict[str, Any]:
        name = "question" if node is None else f"question-{_file(node)}"
        return self.workers[engine].ask(
            do,
            silence=SILENCE_SECONDS,
            engine=engine,
            manner=self.manner.model_dump(mode="json"),
            node=node,
            blueprint=self.subject.blueprint,
            question=str(self.folder / f"{name}.safetensors"),
            **more,
        )


def _start(engine: str, manner: Manner) -> Team:
    if manner.devices == 1:
        return LocalWorker(ONE_THREAD if engine == "reference" else None)
    about = {"devices": manner.devices, "exchange": manner.exchange, "threads": 1}
    trial = make_trial(network="certificate", engine=engine, batch=1, **about)
    return WorkerGroup(lambda place: PipeLink(WORKER), places(trial), trial, RANK_SECONDS)


def _together(engine: str, manner: Manner) -> str:
    """An engine, and how its devices work together if there are several."""
    several = manner.devices > 1
    return f"{engine} on {manner.devices}, {manner.exchange}" if several else engine


def _file(node: str) -> str:
    """A node's name as that of a file."""
    return node.replace("/", "-")


def _sentence(finding: Finding) -> str:
    return (
        f"{finding.kind} is {finding.distance:.2g} away from the reference "
        f"({finding.ratio:.2g} times the limit {finding.tolerance:.2g}), most at {finding.where!r}"
    )
