"""How fast the device can be: a matrix product, a convolution and a copy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as F

from convdyno.engines.contract import Probe
from convdyno.engines.frameworks.torch import device


def probes(
    on: torch.device, dtype: torch.dtype, memory: torch.memory_format, slow: bool
) -> Sequence[Probe]:
    """Work of some tens of milliseconds on an ordinary device; `slow` is for emulated precision."""
    big = on.type != "cpu"
    side = 8192 if big else 256 if slow else 2048
    batch, channels = (128, 256) if big else (1, 64) if slow else (8, 256)

    def filled(*shape: int) -> torch.Tensor:
        return torch.rand(shape, device=on).sub_(0.5).to(dtype)

    a, b = filled(side, side), filled(side, side)
    product = torch.empty_like(a)
    images = filled(batch, channels, 28, 28).contiguous(memory_format=memory)
    kernel = filled(channels, channels, 3, 3).contiguous(memory_format=memory)
    copy, moved = device.stream(on, (1 << 28) if big else (1 << 26))
    conv_macs = batch * 28 * 28 * channels * channels * 9

    @torch.inference_mode()
    def convolve() -> torch.Tensor:
        return F.conv2d(images, kernel, padding=1)

    return (
        Probe("matmul", 2.0 * side**3, lambda: torch.mm(a, b, out=product)),
        Probe("conv", 2.0 * conv_macs, convolve),
        Probe("copy", moved, copy),
    )
