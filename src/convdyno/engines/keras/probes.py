"""How fast the device can be: a matrix product, a convolution and work that moves memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from convdyno.engines.contract import Probe

if TYPE_CHECKING:
    from convdyno.engines.keras.backend import Backend


def probes(backend: Backend, big: bool, dtype: str, nchw: bool, slow: bool) -> Sequence[Probe]:
    """Work of some tens of milliseconds on an ordinary device; `slow` is for emulated precision."""
    side = 8192 if big else 256 if slow else 2048
    batch, channels = (128, 256) if big else (1, 64) if slow else (8, 256)
    random = np.random.default_rng(0)

    def filled(*shape: int) -> Any:
        return ops.cast(ops.convert_to_tensor(random.random(shape, np.float32) - 0.5), dtype)

    a, b = filled(side, side), filled(side, side)
    image = (batch, channels, 28, 28) if nchw else (batch, 28, 28, channels)
    images, kernel = filled(*image), filled(3, 3, channels, channels)
    data_format = "channels_first" if nchw else "channels_last"
    conv_macs = batch * 28 * 28 * channels * channels * 9
    stream, moved = backend.stream((1 << 28) if big else (1 << 26))
    return (
        Probe("matmul", 2.0 * side**3, lambda: ops.matmul(a, b)),
        Probe(
            "conv",
            2.0 * conv_macs,
            lambda: ops.conv(images, kernel, 1, "same", data_format=data_format),
        ),
        Probe("copy", moved, stream),
    )
