"""What all ranks of a trial answered, as one answer: rank 0's facts, the times of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from convdyno.store.record import Block, Peak


def joint_answer(answers: Sequence[dict[str, Any]], independent: bool) -> dict[str, Any]:
    """One answer for those of all ranks to the same command."""
    whole = dict(answers[0])
    match whole["event"]:
        case "opened":
            warnings = [w for a in answers for w in a["settings"]["warnings"]]
            whole["settings"] = whole["settings"] | {"warnings": list(dict.fromkeys(warnings))}
            for name in ("import_seconds", "build_seconds", "first_step_seconds"):
                whole[name] = max(a[name] for a in answers)
            whole["energy"] = all_energy(answers)
        case "warmed":
            whole["warmup"] = joint_blocks([a["warmup"] for a in answers], independent)
            whole["memory_bytes"] = sum(a["memory_bytes"] for a in answers)
        case "measured":
            whole["blocks"] = joint_blocks([a["blocks"] for a in answers], independent)
            losses = [a["last_loss"] for a in answers if a["last_loss"] is not None]
            whole["last_loss"] = sum(losses) / len(losses) if losses else None
            whole["recompilations"] = max(a["recompilations"] for a in answers)
        case "probed":
            whole["peaks"] = [peak.model_dump() for peak in _sum([a["peaks"] for a in answers])]
        case "closed":
            for name in ("peak_memory_bytes", "device_memory_bytes"):
                whole[name] = max((a[name] for a in answers if a[name]), default=None)
    return whole


def joint_blocks(
    each: Sequence[Sequence[dict[str, Any]]], independent: bool
) -> list[dict[str, Any]]:
    """The blocks of all ranks as one: as long as the slowest, or such that rates add up."""
    joint = []
    for blocks in zip(*each, strict=True):
        slowest = max(blocks, key=lambda block: float(block["seconds"]))
        seconds = slowest["seconds"]
        if independent:
            seconds = len(blocks) / sum(1 / block["seconds"] for block in blocks)
        shares = {
            name: max(block[name] for block in blocks) for name in ("foreign_share", "steal_share")
        }
        joules = _joint_joules(blocks, seconds)
        # Ranks wait for cores that other ranks use: that is no stranger's doing.
        known = {"seconds": seconds, "joules": joules, "queued_seconds": None}
        joint.append(slowest | shares | known)
    return [Block(**block).model_dump() for block in joint]


def _joint_joules(blocks: Sequence[dict[str, Any]], seconds: float) -> float | None:
    """What all machines used in so many seconds; unknown if it is of one of them."""
    watts = [b["joules"] / b["seconds"] for b in blocks if b.get("joules") is not None]
    return seconds * sum(watts) if len(watts) == len(blocks) else None


def all_energy(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is counted on all hosts together; nothing if one of them does not count."""
    alone = len({answer["host"] for answer in answers}) == 1
    counted = []
    for answer in answers:
        energy = answer["energy"]
        if energy["reason"]:
            short, _, long = energy["reason"].partition(": ")
            return {"reason": f"{short}: {long}" if alone else f"{short}: {answer['host']}: {long}"}
        counted += [n if alone else f"{n} of {answer['host']}" for n in energy["counted"]]
    return {"counted": list(dict.fromkeys(counted))}


def _sum(each: Sequence[Sequence[dict[str, Any]]]) -> list[Peak]:
    """What all devices together were seen to reach."""
    total: dict[str, float] = {}
    for peaks in each:
        for peak in peaks:
            total[peak["kind"]] = total.get(peak["kind"], 0.0) + peak["per_second"]
    return [Peak(kind=kind, per_second=rate) for kind, rate in total.items()]
