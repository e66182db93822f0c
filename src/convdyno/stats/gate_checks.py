"""What must not differ between a base and a candidate; one look at each is enough for these."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from convdyno.store.record import Record

CHECKS = ("network", "parameters", "macs", "loss", "recompilations")

TOLERANCES = {"fp32": 1e-4, "tf32": 1e-3, "fp16": 1e-2, "bf16": 2e-2}
"""How far apart losses may be, relative to their size, where they cannot be the same to the bit:
other versions or settings round otherwise."""

SAME_IMAGES = frozenset(
    {
        "layout", "compile", "kernels", "feed", "threads", "device", "precision", "input_threads",
        "prefetch", "cores", "bucket_mb",
    }
)  # fmt: skip
"""Settings that may differ without changing what a step sees and is meant to compute."""


@dataclass(frozen=True, slots=True)
class ExactCheck:
    """One thing that was compared exactly."""

    name: str
    passed: bool | None
    """None where the two cannot be compared."""
    base: float | str | None
    candidate: float | str | None
    sentence: str


def exact_checks(
    base: Record,
    candidate: Record,
    loss_within: float | None = None,
    left_out: Collection[str] = (),
) -> list[ExactCheck]:
    """Compare two records of one trial; `loss_within` 0 asks for the same bits, None is by case.

    By case means to the bit where both sides have the same trial, settings and versions, and each
    side's own processes agree to the bit; else by the precision's tolerance.
    """
    if base.network is None or candidate.network is None:
        return []
    found = [
        _same("network", base.network.digest[:12], candidate.network.digest[:12]),
        _same("parameters", base.network.parameters, candidate.network.parameters),
        _same("macs", base.network.macs, candidate.network.macs),
        _loss(base, candidate, loss_within),
        _recompilations(base, candidate),
    ]
    return [check for check in found if check.name not in left_out]


def _same(name: str, base: float | str, candidate: float | str) -> ExactCheck:
    shown = [f"{value:,}" if isinstance(value, int) else value for value in (base, candidate)]
    said = f"{shown[1]} instead of {shown[0]}" if base != candidate else f"{shown[0]}"
    return ExactCheck(name, base == candidate, base, candidate, said)


def _recompilations(base: Record, candidate: Record) -> ExactCheck:
    theirs, ours = (
        max((p.recompilations for p in r.measured), default=0) for r in (base, candidate)
    )
    said = f"{ours} while it was measured" + (f", the base {theirs}" if ours != theirs else "")
    return ExactCheck("recompilations", ours <= theirs, theirs, ours, said)


def _loss(base: Record, candidate: Record, wanted: float | None) -> ExactCheck:
    other = [name for name in base.trial.differs_in(candidate.trial) if name not in SAME_IMAGES]
    if other:
        return _untold(f"not compared: {', '.join(other)} differs")
    ours, theirs = _losses(candidate), _losses(base)
    if not ours or not theirs:
        return _untold("not compared: there is none")
    steps = min(len(one) for one in (*ours, *theirs))
    apart = distance(ours[0][:steps], theirs[0][:steps])
    allowed, why = _allowed(base, candidate, wanted)
    values = theirs[0][steps - 1], ours[0][steps - 1]
    after = f"after {steps} step{'s' * (steps > 1)}"
    if apart == 0:
        said = f"{values[1]:.6g} {after}, to the bit"
    elif apart <= allowed:
        said = f"{values[1]:.6g} {after}, {apart:.1e} apart (at most {allowed:g}{why})"
    else:
        limit = f"at most {allowed:g}" if allowed else "to be the same to the bit"
        said = f"{values[1]:.8g} instead of {values[0]:.8g} {after}: {apart:.1e} apart ({limit})"
    return ExactCheck("loss", apart <= allowed, *values, sentence=said)


def _allowed(base: Record, candidate: Record, wanted: float | None) -> tuple[float, str]:
    """How far apart losses may be, and why not by nothing."""
    if wanted is not None:
        return wanted, ""
    tolerance = max(TOLERANCES[record.trial.precision] for record in (base, candidate))
    if base.trial != candidate.trial or base.settings != candidate.settings:
        return tolerance, ": other settings"
    if base.versions != candidate.versions:
        return tolerance, ": other versions"
    for record, side in ((base, "base"), (candidate, "candidate")):
        if len(set(_losses(record))) > 1:
            return tolerance, f": the {side}'s own processes differ"
    return 0.0, ""


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """The largest relative difference; infinite where one is not a number."""
    apart = [abs(x - y) / max(abs(x), abs(y), 1e-300) for x, y in zip(a, b, strict=True)]
    return max((math.inf if math.isnan(one) else one for one in apart), default=0.0)


def _losses(record: Record) -> list[tuple[float, ...]]:
    """The first losses of each process; one alone where no more were asked for."""
    each = [p.losses or (p.first_loss,) for p in record.processes]
    return [tuple(x for x in losses if x is not None) for losses in each if losses[0] is not None]


def _untold(why: str) -> ExactCheck:
    return ExactCheck("loss", None, None, None, why)
