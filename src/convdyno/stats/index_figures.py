"""The few figures of a record that lists and plans need."""

from __future__ import annotations

from typing import Any

from convdyno.stats.rounds_of_record import rounds_of
from convdyno.stats.summary import interval
from convdyno.store.record import Process, Record


def figures(record: Record) -> dict[str, Any]:
    """Images per second with their interval, rounds, and how long its processes took."""
    rounds = rounds_of(record)
    found = interval(rounds, looks=record.looks) if rounds else None
    return {
        "images_per_second": found.estimate if found else None,
        "low": found.low if found else None,
        "high": found.high if found else None,
        "rounds": len(rounds),
        "seconds": sum(map(_seconds, record.processes)),
    }


def _seconds(process: Process) -> float:
    """From the start of a process to its last block."""
    parts = ("import_seconds", "build_seconds", "first_step_seconds", "warmup_seconds")
    begin = sum(getattr(process, part) or 0.0 for part in parts)
    return begin + sum(block.seconds for block in process.blocks)
