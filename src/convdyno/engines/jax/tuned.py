"""The same mathematics in the forms that XLA is fastest with on a CPU: `--kernels tuned`.

XLA's matrix products are fast on a CPU, its convolutions less so, and in bf16 only products of two
bf16 matrices into float32 use the processor's bf16 units. So a convolution becomes a sum of matrix
products wherever that pays: for each row of the kernel, the image shifted to its cells, side by
side, times that row. The gradient by the images is another such convolution, or with a stride the
products spread out; that by the kernel is one product for each of its cells. A 1x1 convolution is
the case of one cell.

`FORMS` says where it pays; what is not in it stays XLA's own convolution. In bf16 only the operands
of products are bf16; what is handed from op to op is float32, which costs a CPU less than to
convert forth and back.
"""

from __future__ import annotations

import operator
from functools import partial, reduce
from typing import Any, Literal, NamedTuple

import jax
from jax import Array, lax
from jax import numpy as jnp

from convdyno.blueprint.ops import Conv, Norm, Pair, Pool, Quad, Shape
from convdyno.engines.jax.lower import Policy, native_conv, native_max_pool

Form = Literal["native", "products"]


class Forms(NamedTuple):
    """How a convolution and its two gradients are computed."""

    forward: Form
    by_image: Form
    by_kernel: Form


NATIVE = Forms("native", "native", "native")
PRODUCTS = Forms("products", "products", "products")
FORMS = {
    ("float32", "pointwise"): PRODUCTS,
    ("bfloat16", "pointwise"): PRODUCTS,
    ("bfloat16", "window"): PRODUCTS,
}
"""(type of the operands, class of the convolution) -> forms.

Measured with ResNet-50's convolutions on a processor with AVX-512 and bf16, as speed of products to
speed of native: pointwise 1.1 forward and 2.3 to 4 by the kernel in float32, 1.4 to 2.2 and 3 to 6
in bf16; window 0.3 to 1 in float32, 0.9 (56x56 pixels) to 2.8 in bf16.
"""

MANY_CHANNELS = 64
"""Fewer make matrices too thin for fast products."""
MANY_CELLS = 25
"""More make programs too long to compile."""


def classify(op: Conv, channels: int) -> str:
    """The class of a convolution from so many channels, which decides its forms."""
    if op.groups > 1:
        return "grouped"
    if op.kernel == (1, 1) and not any(op.pad):
        return "pointwise"
    return "window" if min(channels, op.out) >= MANY_CHANNELS else "thin"


def conv(policy: Policy, op: Conv, x: Array, kernel: Array) -> Array:
    """A convolution in the form that suits it, into float32."""
    forms = FORMS.get((jnp.dtype(policy.dtype).name, classify(op, x.shape[3])), NATIVE)
    if forms == NATIVE:
        return _native(policy, op, x, kernel)
    return _conv(policy, op, forms, x, kernel)


def _native(policy: Policy, op: Conv, x: Array, kernel: Array) -> Array:
    """XLA's own convolution; of bf16 numbers in float32, which it converts them to anyway."""
    return native_conv(policy, op, x.astype(jnp.float32), kernel.astype(jnp.float32))


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _conv(policy: Policy, op: Conv, forms: Forms, x: Array, kernel: Array) -> Array:
    return (_native if forms.forward == "native" else _convolve)(policy, op, x, kernel)


def _conv_forward(policy: Policy, op: Conv, forms: Forms, x: Array, kernel: Array) -> Any:
    return _conv(policy, op, forms, x, kernel), (x, kernel)


def _conv_backward(policy: Policy, op: Conv, forms: Forms, held: Any, slope: Array) -> Any:
    x, kernel = held
    native, back = jax.vjp(partial(_native, policy, op), x, kernel)
    by_image, by_kernel = back(slope.astype(native.dtype))
    slope = slope.astype(policy.dtype)
    if forms.by_image == "products":
        by_image = _by_image(policy, op, x, kernel, slope).astype(x.dtype)
    if forms.by_kernel == "products":
        by_kernel = _by_kernel(policy, op, x, kernel, slope).astype(kernel.dtype)
    return by_image, by_kernel


_conv.defvjp(_conv_forward, _conv_backward)


def _convolve(policy: Policy, op: Conv, x: Array, kernel: Array) -> Array:
    shifts, (rows, columns) = _shifts(op, x), op.kernel
    terms = [
        _by(policy, _aside([shifts[i, j] for j in range(columns)]), _matrix(kernel[i]))
        for i in range(rows)
    ]
    return reduce(operator.add, terms)


def _by_image(policy: Policy, op: Conv, x: Array, kernel: Array, slope: Array) -> Array:
    turned = kernel.transpose(0, 1, 3, 2)
    mirrored = _mirrored(op)
    if op.stride == (1, 1) and min(mirrored) >= 0:
        mirror = Conv(x.shape[3], op.kernel, pad=mirrored)
        return _convolve(policy, mirror, slope, turned[::-1, ::-1])
    parts = [_spread(_by(policy, slope, turned[cell]), cell, op, x.shape) for cell in _cells(op)]
    return reduce(operator.add, parts)


def _by_kernel(policy: Policy, op: Conv, x: Array, kernel: Array, slope: Array) -> Array:
    """The gradient by the kernel; the pixels of all images are summed over."""
    shifts = [_matrix(_numbers(shift)) for shift in _shifts(op, x).values()]
    if len(shifts) == 1 and kernel.shape[2] < kernel.shape[3]:
        return _product(policy, _upright(shifts[0]), _matrix(slope)).reshape(kernel.shape)
    upright = _upright(_matrix(slope))
    # Without the barrier XLA turns the product around, off its fast path or into an error.
    found = lax.optimization_barrier([_product(policy, upright, shift) for shift in shifts])
    return jnp.stack([part.T for part in found]).reshape(kernel.shape)


def _shifts(op: Conv | Pool, x: Array, beyond: float = 0) -> dict[Pair, Array]:
    """For each cell of a window the pixels that it reads, as many as there are windows."""
    top, bottom, left, right = op.pad
    rows, columns = op.shape(x.shape[1:])[:2]
    x = _bits(x)
    if any(op.pad):
        pads = ((0, 0, 0), (top, bottom, 0), (left, right, 0), (0, 0, 0))
        x = lax.pad(x, jnp.asarray(beyond, x.dtype), pads)
    down, across = op.stride
    ends = (rows - 1) * down + 1, (columns - 1) * across + 1
    return {(i, j): x[:, i : i + ends[0] : down, j : j + ends[1] : across] for i, j in _cells(op)}


def _by(policy: Policy, x: Array, matrix: Array) -> Array:
    """Each pixel times a matrix."""
    x = _numbers(x)
    return _product(policy, _matrix(x), matrix).reshape(*x.shape[:-1], matrix.shape[1])


def _product(policy: Policy, a: Array, b: Array) -> Array:
    return jnp.dot(a, b, precision=policy.precision, preferred_element_type=jnp.float32)


def _upright(matrix: Array) -> Array:
    """Really transposed in memory, which bf16 units need."""
    turned = matrix.T
    if turned.dtype == jnp.float32 or turned.shape[1] % 2:
        return lax.optimization_barrier(turned)
    # In pairs, because XLA would undo a plain transposition.
    pairs = turned.reshape(turned.shape[0], -1, 2)
    return lax.optimization_barrier(pairs).reshape(turned.shape)


def _bits(x: Array) -> Array:
    """bf16 as integers, which are moved as they are; XLA moves bf16 by way of float32."""
    return lax.bitcast_convert_type(x, jnp.uint16) if x.dtype == jnp.bfloat16 else x


def _numbers(x: Array) -> Array:
    return lax.bitcast_convert_type(x, jnp.bfloat16) if x.dtype == jnp.uint16 else x


def _aside(images: list[Array]) -> Array:
    return jnp.concatenate(images, -1)


def _matrix(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def _cells(op: Conv | Pool) -> list[Pair]:
    return [(i, j) for i in range(op.kernel[0]) for j in range(op.kernel[1])]


def _mirrored(op: Conv) -> Quad:
    """The padding with which the gradient by the images is itself a convolution."""
    (rows, columns), (top, bottom, left, right) = op.kernel, op.pad
    return rows - 1 - top, rows - 1 - bottom, columns - 1 - left, columns - 1 - right


def _spread(part: Array, cell: Pair, op: Conv | Pool, shape: Shape) -> Array:
    """What windows give back to one of their cells, at the pixels of the images that it reads."""
    low = cell[0] - op.pad[0], cell[1] - op.pad[2]
    pads = [
        (start, size - start - ((count - 1) * stride + 1), stride - 1)
        for start, size, count, stride in zip(
            low, shape[1:3], part.shape[1:3], op.stride, strict=True
        )
    ]
    return lax.pad(part, jnp.zeros((), part.dtype), ((0, 0, 0), *pads, (0, 0, 0)))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def norm(op: Norm, x: Array, scale: Array, offset: Array) -> tuple[Array, Array, Array]:
    """Batch norm over a batch, with the gradient of the paper (arXiv:1502.03167): fewer passes."""
    return _norm_forward(op, x, scale, offset)[0]


def _norm_forward(op: Norm, x: Array, scale: Array, offset: Array) -> Any:
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axes)
    variance = jnp.square(x - mean).mean(axes)
    factor = lax.rsqrt(variance + op.eps)
    y = (x - mean) * (factor * scale) + offset
    return (y, mean, variance), (x, mean, factor, scale)


def _norm_backward(op: Norm, held: Any, slopes: Any) -> tuple[Array, Array, Array]:
    """Nothing depends on the statistics but running averages, so only the first slope counts."""
    (x, mean, factor, scale), slope = held, slopes[0]
    axes, count = tuple(range(x.ndim - 1)), x.size // x.shape[-1]
    by_offset = slope.sum(axes)
    by_scale = (slope * (x - mean)).sum(axes) * factor
    along = (x - mean) * (factor * by_scale / count)
    return (factor * scale) * (slope - by_offset / count - along), by_scale, by_offset


norm.defvjp(_norm_forward, _norm_backward)


def max_pool(op: Pool, x: Array) -> Array:
    """A sliding maximum; as in the native form the gradient goes to the first of equal values."""
    return _max_pool(op, x) if len(_cells(op)) <= MANY_CELLS else native_max_pool(op, x)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _max_pool(op: Pool, x: Array) -> Array:
    return _highest(op, x)[0]


def _highest(op: Pool, x: Array) -> tuple[Array, Array]:
    """The maxima, and which of its window's cells each is."""
    first, *others = _shifts(op, x, -jnp.inf).values()
    best, where = first, jnp.zeros(first.shape, jnp.uint8)
    for number, other in enumerate(others, 1):
        better = other > best
        best, where = jnp.where(better, other, best), jnp.where(better, jnp.uint8(number), where)
    return best, where


def _pool_forward(op: Pool, x: Array) -> Any:
    best, where = _highest(op, x)
    return best, (where, x)


def _pool_backward(op: Pool, held: Any, slope: Array) -> tuple[Array]:
    where, x = held
    parts = [
        _spread(jnp.where(where == number, slope, 0), cell, op, x.shape)
        for number, cell in enumerate(_cells(op))
    ]
    return (reduce(operator.add, parts),)


_max_pool.defvjp(_pool_forward, _pool_backward)
