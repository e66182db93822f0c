"""What all engines say alike of the devices that they run on."""

from __future__ import annotations

from collections.abc import Sequence

from convdyno.errors import Refused


def pick(framework: str, wanted: str, present: Sequence[str]) -> str:
    """The device of that name, or the best one (which is the first) for "auto"."""
    name = {"auto": present[0], "cuda": "cuda:0"}.get(wanted, wanted)
    if name not in present:
        raise Refused(f"{framework} has no device {wanted!r} here; it has {', '.join(present)}")
    return name


def check_tf32(precision: str, device: str) -> None:
    """Refuse tf32 wherever it is not arithmetic of the device."""
    if precision == "tf32" and not device.startswith("cuda"):
        raise Refused(
            f"tf32 is arithmetic of NVIDIA GPUs, and this trial runs on {device}: "
            "use fp32, bf16 or fp16, or a CUDA device"
        )
