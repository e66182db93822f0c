"""What the processor cannot do well, in words."""

from __future__ import annotations

from convdyno.machine.processor import features, physical_cores

NATIVE = {
    "bf16": {"avx512_bf16", "amx_bf16", "bf16"},
    "fp16": {"avx512_fp16", "amx_fp16", "asimdhp"},
}
"""Features, as Linux calls them, by which half precision is real arithmetic."""


def has(instructions: str) -> bool:
    """Whether the processor has a set of instructions, as Linux calls it."""
    return instructions in features()


def emulated(precision: str) -> bool:
    """Whether it only pretends to have a precision."""
    found = features()
    return precision in NATIVE and bool(found) and not found & NATIVE[precision]


def emulation(precision: str) -> list[str]:
    """A warning, if a precision is emulated."""
    if not emulated(precision):
        return []
    native = " nor ".join(sorted(n for n in NATIVE[precision] if "512" in n or "amx" in n))
    return [
        f"{precision} is emulated: this CPU has neither {native}; "
        "expect it to be slower than fp32, and measure fp32 beside it"
    ]


def crowded(threads: int) -> list[str]:
    """A warning, if there are more threads than cores."""
    here = physical_cores()
    if threads <= here:
        return []
    return [f"{threads} threads share {here} cores; --threads {here} is usually faster"]


def warnings(device: str, precision: str, threads: int) -> tuple[str, ...]:
    """What the user of a CPU should know; nothing of other devices."""
    return (*emulation(precision), *crowded(threads)) if device == "cpu" else ()
