"""The JSON document of a benchmark: what `--json` prints. `docs/json.md` describes it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from convdyno import __version__
from convdyno.report.ladders import Climbed
from convdyno.report.rows import Row
from convdyno.report.scaling import Curve
from convdyno.results.certificate import Certificate
from convdyno.results.record import Record
from convdyno.stats.compare import Comparison
from convdyno.stats.holm import judge_family
from convdyno.stats.rounds_of_record import comparable, sides, took_turns
from convdyno.trial.spec import Trial

FORMAT = 1

Compared = tuple[int, int, Comparison]
"""Two cells by their index, and their ratio."""


Certificates = Mapping[tuple[str, str], Certificate]
"""By network and kernels."""


def compare_records(
    records: Sequence[Record], certificates: Certificates | None = None
) -> list[Compared]:
    """All comparisons that make sense between the cells of one benchmark, as one family.

    Cells of different engines or kernels are compared only with certificates that both compute
    the same function. Cells of different runs, such as jobs of Slurm, are compared unpaired.
    """
    pairs = comparable(records)
    doubts = {
        (a, b): doubt(records[a].trial, records[b].trial, certificates or {}) for a, b in pairs
    }
    tested = [pair for pair in pairs if not doubts[pair]]
    looks = max((record.looks for record in records), default=1)
    found = judge_family([sides(records[a], records[b]) for a, b in tested], looks=looks)
    judged = dict(zip(tested, found, strict=True))
    return [(a, b, judged.get((a, b)) or refusal(doubts[a, b])) for a, b in pairs]


def doubt(a: Trial, b: Trial, certificates: Certificates) -> str:
    """Why two cells may not be compared; nothing if they may."""
    if (a.engine, a.kernels) == (b.engine, b.kernels):
        return ""
    for trial in (a, b):
        certificate = certificates.get((trial.network, trial.kernels))
        proof = certificate.proof(trial.engine) if certificate else None
        if proof is None:
            return f"not comparable: no certificate for {trial.engine} ({trial.kernels} kernels)"
        if not proof.passed:
            return f"not comparable: {trial.engine} failed its certificate: {proof.reason}"
    return ""


CONDITIONS = ("device", "layout", "compiled", "threads")
"""What `auto` may become, and two engines may choose differently."""


class Settled(Protocol):
    """Something that was run with known settings."""

    @property
    def settings(self) -> Mapping[str, Any] | None: ...


def differing(records: Sequence[Settled]) -> dict[str, list[Any]]:
    """The conditions that were not the same for all of these cells, with each cell's own."""
    found = {}
    for name in CONDITIONS:
        values = [(record.settings or {}).get(name) for record in records]
        if len({value for value in values if value is not None}) > 1:
            found[name] = values
    return found


def refusal(reason: str) -> Comparison:
    """A comparison that is not made."""
    return Comparison(None, None, None, None, None, "undecided", 0, reason)


def bench_document(
    rows: Sequence[Row],
    compared: Sequence[Compared],
    ladders: Sequence[Climbed],
    folder: Path,
    curves: Sequence[Curve] = (),
) -> dict[str, Any]:
    """Cells, comparisons, ladders and scaling curves, unrounded."""
    return {
        "format": FORMAT,
        "convdyno": __version__,
        "cells": [row.to_data() | {"record": str(folder / f"{row.id}.json")} for row in rows],
        "comparisons": [
            {
                "a": a,
                "b": b,
                "ratio": one.ratio,
                "interval": [one.low, one.high],
                "level": one.level,
                "p": one.p,
                "rounds": one.rounds,
                "verdict": one.verdict,
                "paired": took_turns(rows[a].record, rows[b].record),
                "reason": one.reason,
                "conditions": differing([rows[a].record, rows[b].record]),
            }
            for a, b, one in compared
        ],
        "ladders": [ladder.to_data() for ladder in ladders],
        "scaling": [curve.to_data() for curve in curves],
    }


def certificates_document(certificates: Sequence[Certificate]) -> dict[str, Any]:
    """Certificates for machines; with one network its engines stand at the top."""
    return {
        "format": FORMAT,
        "convdyno": __version__,
        "passed": all(certificate.passed for certificate in certificates),
        "engines": [
            {"network": certificate.network} | proof.model_dump(mode="json")
            for certificate in certificates
            for proof in certificate.engines
        ],
        "certificates": [
            certificate.model_dump(mode="json", exclude={"engines"}) | {"hash": certificate.hash}
            for certificate in certificates
        ],
    }


def to_json(document: dict[str, Any]) -> str:
    """The document as strict JSON: what is not a finite number is null."""
    return json.dumps(_finite(document), indent=1, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
