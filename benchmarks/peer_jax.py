"""Networks as a flax user writes them, in one jitted step: the peers of our JAX engine."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn


class Block(nn.Module):
    """A bottleneck with the stride on the 3x3 convolution."""

    width: int
    stride: int
    conv: Any
    norm: Any

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        strides, around = (self.stride, self.stride), [(1, 1), (1, 1)]
        y = nn.relu(self.norm()(self.conv(self.width, (1, 1))(x)))
        y = nn.relu(self.norm()(self.conv(self.width, (3, 3), strides, padding=around)(y)))
        y = self.norm()(self.conv(4 * self.width, (1, 1))(y))
        if x.shape != y.shape:
            x = self.norm()(self.conv(4 * self.width, (1, 1), strides)(x))
        return nn.relu(x + y)


class ResNet50(nn.Module):
    """ResNet-50 v1.5."""

    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, training: bool = True) -> jax.Array:
        conv = functools.partial(nn.Conv, use_bias=False, dtype=self.dtype)
        norm = functools.partial(
            nn.BatchNorm, use_running_average=False, momentum=0.9, epsilon=1e-5, dtype=self.dtype
        )
        x = nn.relu(norm()(conv(64, (7, 7), (2, 2), padding=[(3, 3), (3, 3)])(x)))
        x = nn.max_pool(x, (3, 3), (2, 2), padding=((1, 1), (1, 1)))
        for stage, depth in enumerate((3, 4, 6, 3)):
            for unit in range(depth):
                stride = 2 if stage and not unit else 1
                x = Block(64 * 2**stage, stride, conv, norm)(x)
        return nn.Dense(1000, dtype=self.dtype)(x.mean((1, 2))).astype(jnp.float32)


class DeepMnist(nn.Module):
    """The network of the Deep MNIST tutorial."""

    @nn.compact
    def __call__(self, x: jax.Array, training: bool = True) -> jax.Array:
        for width in (32, 64):
            x = nn.max_pool(nn.relu(nn.Conv(width, (5, 5))(x)), (2, 2), (2, 2))
        x = nn.relu(nn.Dense(1024)(x.reshape(len(x), -1)))
        return nn.Dense(10)(nn.Dropout(0.5, deterministic=not training)(x))


RANKS: dict[str, tuple[nn.Module, Any]] = {
    "deepmnist": (
        DeepMnist(),
        optax.chain(optax.add_decayed_weights(1e-4), optax.adam(1e-4)),
    ),
    "resnet50-v1.5": (
        ResNet50(),
        optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(1e-3, momentum=0.9, nesterov=True)),
    ),
}
"""Networks with their update rules, for `peer_ranks.py`."""


def bare_step(pixels: Any, labels: Any, precision: str) -> Callable[[], None]:
    """One training step, ready to call; it waits for its result."""
    model = ResNet50({"fp32": jnp.float32, "bf16": jnp.bfloat16}[precision])
    rule = optax.chain(
        optax.add_decayed_weights(1e-4), optax.sgd(1e-3, momentum=0.9, nesterov=True)
    )
    images, truth = jnp.asarray(pixels), jnp.asarray(labels)
    variables = jax.jit(model.init)(jax.random.key(0), images)
    state = [variables["params"], variables["batch_stats"], rule.init(variables["params"])]

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def train(params: Any, stats: Any, memory: Any, x: jax.Array, y: jax.Array) -> Any:
        def loss(params: Any) -> Any:
            scores, new = model.apply(
                {"params": params, "batch_stats": stats}, x, mutable=["batch_stats"]
            )
            losses = optax.softmax_cross_entropy_with_integer_labels(scores, y)
            return losses.mean(), new["batch_stats"]

        (value, stats), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        updates, memory = rule.update(gradients, memory, params)
        return optax.apply_updates(params, updates), stats, memory, value

    def step() -> None:
        *state[:], value = train(*state, images, truth)
        value.block_until_ready()

    return step
