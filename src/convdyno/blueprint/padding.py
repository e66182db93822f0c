"""Where the windows of a convolution or pool lie, for frameworks that put padding otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from convdyno.blueprint.ops import Conv, Pool, Quad, Shape


def reached(op: Conv | Pool, shape: Shape) -> Quad:
    """The padding without what lies beyond the last window."""
    bottom, right = (
        max(0, (out - 1) * stride + kernel - size - before)
        for out, stride, kernel, size, before in _axes(op, shape)
    )
    return op.pad[0], bottom, op.pad[2], right


def is_same(op: Conv | Pool, shape: Shape) -> bool:
    """Whether the "same" padding of TensorFlow and Keras has the same windows."""
    return all(
        out == -(-size // stride) and before == max(0, (out - 1) * stride + kernel - size) // 2
        for out, stride, kernel, size, before in _axes(op, shape)
    )


def padded_share(op: Pool, shape: Shape) -> NDArray[np.float64]:
    """For each window: all its cells / those that are not padding, as (rows, columns)."""
    rows, columns = (
        [min(i * stride - before + kernel, size) - max(i * stride - before, 0) for i in range(out)]
        for out, stride, kernel, size, before in _axes(op, shape)
    )
    shares: NDArray[np.float64] = math.prod(op.kernel) / np.outer(rows, columns)
    return shares


def _axes(op: Conv | Pool, shape: Shape) -> Iterator[tuple[int, ...]]:
    """For both axes: windows, stride, kernel, size of the input, padding before it."""
    before = op.pad[0], op.pad[2]
    return zip(op.shape(shape)[:2], op.stride, op.kernel, shape[:2], before, strict=True)
