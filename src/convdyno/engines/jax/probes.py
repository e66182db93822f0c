"""How fast the device can be: a matrix product, a convolution and a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from convdyno.blueprint.ops import Conv
from convdyno.engines.contract import Probe
from convdyno.engines.jax.lower import Policy


def probes(
    device: jax.Device, policy: Policy, enqueued: Callable[[Array], Array]
) -> Sequence[Probe]:
    """Work of some tens of milliseconds on an ordinary device; `enqueued` is told its result."""
    big = device.platform != "cpu"
    # Half precision in float16 is not a CPU's arithmetic: XLA takes it apart.
    slow = not big and policy.dtype == jnp.float16
    side = 8192 if big else 512 if slow else 2048
    batch, channels = (128, 256) if big else (1, 64) if slow else (8, 256)
    floats = (1 << 28) if big else (1 << 26)
    random = np.random.default_rng(0)

    def filled(*shape: int) -> Array:
        values = random.uniform(-0.5, 0.5, shape).astype(np.float32)
        return jax.device_put(values, device).astype(policy.dtype)

    a, b = filled(side, side), filled(side, side)
    images, kernel = filled(batch, 28, 28, channels), filled(3, 3, channels, channels)
    op = Conv(channels, (3, 3), pad=(1, 1, 1, 1))
    source = jax.device_put(np.zeros(floats, np.float32), device)
    target = jax.device_put(np.zeros(floats, np.float32), device)

    multiply = jax.jit(
        lambda a, b: jnp.dot(
            a, b, precision=policy.precision, preferred_element_type=policy.between
        )
    )
    convolve = jax.jit(lambda x, w: policy.conv(policy, op, x, w))
    # Into memory that is there already; a sign, because a bare copy would be compiled away.
    negate = jax.jit(lambda source, target: -source, donate_argnums=1, keep_unused=True)

    def copy() -> Array:
        nonlocal target
        target = negate(source, target)
        return enqueued(target)

    flops = 2.0 * batch * op.macs((28, 28, channels))
    return (
        Probe("matmul", 2.0 * side**3, lambda: enqueued(multiply(a, b))),
        Probe("conv", flops, lambda: enqueued(convolve(images, kernel))),
        Probe("copy", 2.0 * source.nbytes, copy),
    )
