"""The oracle: every op in NumPy and float64, slow and plain.

Images here are what `contract.normalise` returns, (images, height, width, channels); everything is
computed in float64 and in canonical layout. Other engines are tested against these functions.
As an engine it runs and trains tiny networks.
"""

from __future__ import annotations

import functools
import math
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint, Node
from convdyno.blueprint.ops import (
    LRN,
    Act,
    Add,
    ChannelGate,
    ChannelNorm,
    ChannelScale,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Input,
    Mean,
    Norm,
    Op,
    Pair,
    Pool,
    Quad,
    Scale,
    Shuffle,
    Slice,
    Widen,
)
from convdyno.blueprint.weights import Weights, check_weights
from convdyno.engines import contract
from convdyno.engines.contract import (
    Batch,
    Engine,
    FaultEffect,
    Numbers,
    Probe,
    Session,
    SessionSettings,
    State,
)
from convdyno.engines.reference_rounding import EXACT, Arithmetic
from convdyno.engines.reference_update import Array, fresh_memory, update
from convdyno.errors import Refused
from convdyno.trial.spec import Trial
from convdyno.trial.world import World

if TYPE_CHECKING:
    from convdyno.engines.reference_backward import Step

OWN = "own/reference/"
"""In a state: what was not yet rounded to float32."""
ROUNDING = (Conv, Norm, Dense, LRN, Mean, Add, Scale, ChannelGate, ChannelNorm, ChannelScale)
"""Ops that compute numbers that nobody had; the others hand on what they get, or none of it."""
REMEMBERED = 2
"""Batches whose derivatives are kept for as long as the weights stay where they are."""
GELU_SLOPE, GELU_CUBE = math.sqrt(2 / math.pi), 0.044715
"""Of its form by tanh."""
Arrays = Mapping[str, NDArray[np.floating]]
"""Weights by canonical name, in any float type."""
Images = NDArray[np.floating]
Labels = NDArray[np.int64]


@dataclass
class Pass:
    """One forward pass: the output of each node, and in training form the batch statistics."""

    values: dict[str, Array] = field(default_factory=dict)
    statistics: dict[str, Array] = field(default_factory=dict)
    """Mean and population variance of the batch, by canonical name."""


def forward(
    blueprint: Blueprint,
    weights: Arrays,
    images: Images,
    training: bool = False,
    arithmetic: Arithmetic = EXACT,
) -> Pass:
    """Run a network; in training form batch norm uses the batch's own statistics."""
    done = Pass()
    for node in blueprint.nodes:
        own = own_weights(blueprint, node, weights, arithmetic)
        inputs = [done.values[name] for name in node.inputs]
        if isinstance(node.op, Conv | Dense):
            inputs = [arithmetic.operand(x) for x in inputs]
        match node.op:
            case Input():
                value = arithmetic.number(images)
            case Norm() as op if training:
                own["mean"], own["variance"] = batch_statistics(
                    inputs[0], by_squares=arithmetic.by_squares
                )
                done.statistics[f"{node.name}/mean"] = own["mean"]
                done.statistics[f"{node.name}/variance"] = own["variance"]
                value = _norm(op, own, inputs[0])
            case Dropout(rate) if training and rate:
                raise Refused(
                    f"{blueprint.name}: the reference has no random numbers to drop with at "
                    f"{node.name!r}; compare training with dropout at rate 0"
                )
            case Conv(groups=1) | Dense() as op if arithmetic.backwards:
                turned = own | {"kernel": own["kernel"][..., ::-1, :]}
                value = COMPUTE[type(op)](op, turned, inputs[0][..., ::-1])
            case op:
                value = COMPUTE[type(op)](op, own, *inputs)
        rounds = isinstance(node.op, ROUNDING)
        done.values[node.name] = (arithmetic.result if rounds else arithmetic.between)(value)
    return done


def own_weights(
    blueprint: Blueprint, node: Node, weights: Arrays, arithmetic: Arithmetic
) -> dict[str, Array]:
    """What an op computes with: kernels and biases as operands, the rest as they are."""
    return {
        kind: (arithmetic.operand if kind in ("kernel", "bias") else arithmetic.number)(
            weights[f"{node.name}/{kind}"]
        )
        for kind in node.op.weights(*blueprint.shapes_in(node))
    }


def logits(
    blueprint: Blueprint, weights: Arrays, images: Images, arithmetic: Arithmetic = EXACT
) -> Array:
    """The class scores of the first head as in use: running statistics, no dropout."""
    answer = blueprint.for_inference()
    return forward(answer, weights, images, arithmetic=arithmetic).values[answer.heads[0].node]


def loss(
    blueprint: Blueprint, weights: Arrays, images: Images, labels: Labels, smoothing: float = 0.0
) -> float:
    """The training loss without L2: mean cross-entropy, summed over the heads by their weights."""
    values = forward(blueprint, weights, images, training=True).values
    return sum(
        head.weight * cross_entropy(values[head.node], labels, smoothing)
        for head in blueprint.heads
    )


def cross_entropy(scores: Array, labels: Labels, smoothing: float = 0.0) -> float:
    """The mean over a batch of -log softmax(scores) in the direction of the targets."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    log_probability = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    wanted = targets(labels, scores.shape[1], smoothing).astype(scores.dtype)
    return -float((wanted * log_probability).sum(axis=1).mean())


def targets(labels: Labels, classes: int, smoothing: float) -> Array:
    """What the probabilities should be: 1 for the label, but for the share that all get alike."""
    return (1 - smoothing) * np.eye(classes)[labels] + smoothing / classes


def finite_difference(
    blueprint: Blueprint,
    weights: Arrays,
    images: Images,
    labels: Labels,
    name: str,
    index: tuple[int, ...],
    h: float = 1e-5,
    smoothing: float = 0.0,
) -> float:
    """The derivative of the training loss by one number of one weight, by central difference."""

    def at(step: float) -> float:
        moved = np.array(weights[name], np.float64)
        moved[index] += step
        return loss(blueprint, {**weights, name: moved}, images, labels, smoothing)

    return (at(h) - at(-h)) / (2 * h)


def batch_statistics(x: Array, *, by_squares: bool = False) -> tuple[Array, Array]:
    """Mean and population variance of each channel.

    Some engines take the mean of the squares less the square of the mean, which is quicker and
    loses digits where the mean is large.
    """
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axis=axes)
    variance = np.square(x).mean(axis=axes) - np.square(mean) if by_squares else x.var(axis=axes)
    return mean, variance


def running_statistics(blueprint: Blueprint, weights: Arrays, images: Images) -> dict[str, Array]:
    """The running means and variances after one training step on this batch."""
    return statistics_after(blueprint, weights, forward(blueprint, weights, images, training=True))


def statistics_after(blueprint: Blueprint, weights: Arrays, done: Pass) -> dict[str, Array]:
    """The running means and variances after a training step with that forward pass."""
    decays = {node.name: node.op.decay for node in blueprint.nodes if isinstance(node.op, Norm)}
    return {
        name: decay * weights[name] + (1 - decay) * done.statistics[name]
        for node, decay in decays.items()
        for name in (f"{node}/mean", f"{node}/variance")
    }


def _conv(op: Conv, w: Mapping[str, Array], x: Array) -> Array:
    windows = _windows(_padded(x, op.pad, 0.0), op.kernel, op.stride)
    outputs = [
        np.einsum("nyxchw,hwco->nyxo", part, kernel, optimize=True)
        for part, kernel in zip(
            np.split(windows, op.groups, axis=3),
            np.split(w["kernel"], op.groups, axis=3),
            strict=True,
        )
    ]
    return np.concatenate(outputs, axis=3) + w.get("bias", 0.0)


def _norm(op: Norm, w: Mapping[str, Array], x: Array) -> Array:
    normal = (x - w["mean"]) / np.sqrt(w["variance"] + op.eps)
    return normal * w.get("scale", 1.0) + w["offset"]


ACTS: dict[str, Callable[[Act, Array], Array]] = {
    "relu": lambda op, x: np.maximum(x, 0),
    "relu6": lambda op, x: np.clip(x, 0, 6),
    "leaky": lambda op, x: np.where(x > 0, x, op.slope * x),
    "tanh": lambda op, x: np.tanh(x),
    "sigmoid": lambda op, x: sigmoid(x),
    "silu": lambda op, x: x * sigmoid(x),
    "hardswish": lambda op, x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda op, x: np.clip(x + 3, 0, 6) / 6,
    "gelu": lambda op, x: x * normal_share(x),
    "gelu-tanh": lambda op, x: x * (1 + np.tanh(GELU_SLOPE * (x + GELU_CUBE * x**3))) / 2,
}


def sigmoid(x: Array) -> Array:
    """Between 0 and 1."""
    return 1 / (1 + np.exp(-x))


def normal_share(x: Array) -> Array:
    """The share of the normal distribution that is below each value."""
    share = [0.5 * math.erfc(-value / math.sqrt(2)) for value in x.ravel().tolist()]
    return np.array(share, x.dtype).reshape(x.shape)


def _pool(op: Pool, w: Mapping[str, Array], x: Array) -> Array:
    if op.kind == "max":
        highest: Array = pool_windows(op, x, -np.inf).max((-2, -1))
        return highest
    total = pool_windows(op, x, 0.0).sum((-2, -1))
    cells = _padded(np.ones_like(x), op.pad, 1.0 if op.count_pad else 0.0)
    average: Array = total / _windows(cells, op.kernel, op.stride).sum((-2, -1))
    return average


def pool_windows(op: Pool, x: Array, edge: float) -> Array:
    """What a pool looks at: (images, rows, columns, channels, kernel height, kernel width)."""
    return _windows(_padded(x, op.pad, edge), op.kernel, op.stride)


def _lrn(op: LRN, w: Mapping[str, Array], x: Array) -> Array:
    normal: Array = x / (op.bias + op.alpha * near(x**2, op.radius)) ** op.beta
    return normal


def near(x: Array, radius: int) -> Array:
    """The sum over each value's neighbours across the channels."""
    padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (radius, radius)))
    total: Array = sliding_window_view(padded, 2 * radius + 1, axis=3).sum(-1)
    return total


def _channel_norm(op: ChannelNorm, w: Mapping[str, Array], x: Array) -> Array:
    normal, _ = standardised(op, x)
    return normal * w["scale"] + w["offset"]


def standardised(op: ChannelNorm, x: Array) -> tuple[Array, Array]:
    """Each position's channels with mean 0 and deviation 1, and what that deviation was."""
    deviation: Array = np.sqrt(x.var(axis=-1, keepdims=True) + op.eps)
    return (x - x.mean(axis=-1, keepdims=True)) / deviation, deviation


def shuffled(x: Array, groups: int) -> Array:
    """Channels in another order: the first of each group, then the second of each."""
    parts = x.reshape(*x.shape[:-1], groups, -1)
    return parts.swapaxes(-1, -2).reshape(x.shape)


def _padded(x: Array, pad: Quad, value: float) -> Array:
    top, bottom, left, right = pad
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=value)


def _windows(x: Array, kernel: Pair, stride: Pair) -> Array:
    """(images, rows, columns, channels, kernel height, kernel width)."""
    return sliding_window_view(x, kernel, axis=(1, 2))[:, :: stride[0], :: stride[1]]


COMPUTE: dict[type[Op], Callable[..., Array]] = {
    Conv: _conv,
    Norm: _norm,
    Act: lambda op, w, x: ACTS[op.kind](op, x),
    Pool: _pool,
    LRN: _lrn,
    Mean: lambda op, w, x: x.mean(axis=(1, 2)),
    Flatten: lambda op, w, x: x.reshape(len(x), -1),
    Dense: lambda op, w, x: x @ w["kernel"] + w.get("bias", 0.0),
    Dropout: lambda op, w, x: x,
    Add: lambda op, w, *xs: functools.reduce(operator.add, xs),
    Concat: lambda op, w, *xs: np.concatenate(xs, axis=-1),
    Scale: lambda op, w, x: op.factor * x,
    Widen: lambda op, w, x: np.pad(x, ((0, 0), (0, 0), (0, 0), (op.before, op.after))),
    ChannelGate: lambda op, w, x, gate: x * gate[:, None, None],
    ChannelNorm: _channel_norm,
    ChannelScale: lambda op, w, x: x * w["gain"],
    Slice: lambda op, w, x: x[..., op.first : op.first + op.count],
    Shuffle: lambda op, w, x: shuffled(x, op.groups),
}
"""What each op computes as in use: (the op, its own weights, its inputs) -> its output."""


class ReferenceSession(Session):
    """A network that NumPy runs."""

    def __init__(
        self,
        blueprint: Blueprint,
        trial: Trial,
        weights: Weights,
        arithmetic: Arithmetic = EXACT,
    ) -> None:
        self.settings = SessionSettings(
            device="cpu",
            device_name="NumPy",
            layout="nhwc",
            compiled=False,
            threads=1,
            flags={"arithmetic": arithmetic.dtype.__name__},
            warnings=("the reference engine is an oracle, not a contender: it is slow by design",),
        )
        self.clock = time.perf_counter_ns
        self._blueprint, self._optimiser = blueprint, trial.optimiser
        self._arithmetic, self._parts = arithmetic, trial.accumulate
        # The parts of a batch must stay what they are.
        turned = arithmetic.backwards and self._parts == 1
        self._order = slice(None, None, -1 if turned else 1)
        self._now: dict[str, Array] = {}
        fresh = fresh_memory(trial.optimiser, blueprint.trainable)
        self._memory = {name: arithmetic.number(array) for name, array in fresh.items()}
        self._loss = math.nan
        self._known: list[tuple[Batch, dict[str, Array], Step]] = []
        self.load(weights)

    def place(self, images: NDArray[np.uint8], labels: Labels) -> Batch:
        pixels = self._arithmetic.between(contract.normalise(images)[self._order])
        return pixels, labels[self._order].copy()

    def train_step(self, batch: Batch) -> None:
        steps: list[Step] = []
        now = self._now
        for part in zip(*(np.array_split(half, self._parts) for half in batch), strict=True):
            whole = batch if self._parts == 1 else part
            steps.append(self._differentiate(whole))
            now = now | statistics_after(self._blueprint, now, steps[-1].done)
        gradients = {
            name: sum((step.gradients[name] for step in steps[1:]), steps[0].gradients[name])
            / len(steps)
            for name in self._blueprint.trainable
        }
        self._now, self._memory = update(self._optimiser, now, gradients, self._memory)
        self._loss = sum(step.loss for step in steps) / len(steps)

    def infer_step(self, batch: Batch) -> None:
        self.logits(batch)

    def wait(self) -> None:
        """Nothing is ever pending."""

    def loss(self) -> float:
        return self._loss

    def logits(self, batch: Batch) -> NDArray[np.float32]:
        scores = logits(self._blueprint, self._now, batch[0], self._arithmetic)
        return scores[self._order].astype(np.float32)

    def gradients(self, batch: Batch) -> Weights:
        found = self._differentiate(batch).gradients
        return {name: array.astype(np.float32) for name, array in found.items()}

    def weights(self) -> Weights:
        return {name: array.astype(np.float32) for name, array in self._now.items()}

    def load(self, weights: Weights) -> None:
        check_weights(self._blueprint, weights)
        self._now = {n: self._arithmetic.number(weights[n]) for n in self._blueprint.weights}
        if self._optimiser.ema is not None and not self._memory["updates"]:
            self._memory |= {f"average/{name}": array for name, array in self._now.items()}

    def state(self) -> State:
        state: State = {n: array.astype(np.float32) for n, array in self._memory.items()}
        state |= {f"{OWN}{n}": array.copy() for n, array in (self._memory | self._now).items()}
        return state | {"updates": self._memory["updates"].astype(np.int64)}

    def restore(self, state: State) -> None:
        contract.check_state(self._blueprint, self._optimiser, state)
        self._memory = {n: _exact(state, n, state[n]) for n in self._memory}
        self._now = {n: _exact(state, n, array) for n, array in self._now.items()}

    def set_rate(self, rate: float) -> None:
        self._optimiser = self._optimiser.model_copy(update={"rate": rate})

    def compilations(self) -> int:
        """Nothing is ever compiled."""
        return 0

    def memory_bytes(self) -> int | None:
        """The device has no memory of its own."""
        return None

    def probes(self) -> Sequence[Probe]:
        """NumPy's own matrix product and copy, and this engine's convolution."""
        square = np.full((1024, 1024), 0.5)
        product = np.empty_like(square)
        image, kernel = np.full((1, 28, 28, 64), 0.5), np.full((3, 3, 64, 64), 0.5)
        conv = Conv(64, (3, 3), pad=(1, 1, 1, 1))
        flops = 2.0 * conv.macs((28, 28, 64))
        source = np.full(1 << 24, 0.5)
        target = np.empty_like(source)
        return (
            Probe("matmul", 2.0 * 1024**3, lambda: np.matmul(square, square, out=product)),
            Probe("conv", flops, lambda: _conv(conv, {"kernel": kernel}, image)),
            Probe("copy", 2.0 * source.nbytes, lambda: np.copyto(target, source)),
        )

    def _differentiate(self, batch: Batch) -> Step:
        """Loss and derivatives of a batch; not computed twice where the weights have not moved."""
        from convdyno.engines.reference_backward import differentiate

        trained = {name: self._now[name] for name in self._blueprint.trainable}
        for known, at, step in self._known:
            if known is batch and all(np.array_equal(at[n], trained[n]) for n in trained):
                return step
        images, labels = batch
        smoothing = self._optimiser.label_smoothing
        step = differentiate(
            self._blueprint, self._now, images, labels, smoothing, self._arithmetic
        )
        self._known = [*self._known, (batch, trained, step)][-REMEMBERED:]
        return step


def _exact(state: State, name: str, rounded: NDArray[Any]) -> Array:
    """An array before it was rounded to float32, if the state has it."""
    own = state.get(f"{OWN}{name}")
    if own is not None and np.array_equal(own.astype(np.float32), rounded.astype(np.float32)):
        return own
    return np.asarray(rounded, np.float64)


class ReferenceEngine:
    """NumPy as an engine."""

    def __init__(self, arithmetic: Arithmetic = EXACT) -> None:
        self._arithmetic = arithmetic

    def versions(self) -> dict[str, str]:
        """NumPy's version."""
        return {"numpy": np.__version__}

    def join(self, world: World, trial: Trial) -> None:
        """It computes alone."""
        raise Refused("the reference engine runs on one device only: use --devices 1")

    def leave(self) -> None:
        """It computes alone."""

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network into NumPy arrays."""
        possible = {
            "precision": ("fp32",),
            "layout": ("auto", "nhwc"),
            "compile": ("auto", "off"),
            "device": ("auto", "cpu"),
        }
        for setting, values in possible.items():
            given = getattr(trial, setting)
            if given not in values:
                raise Refused(
                    f"the reference engine has no {setting} {given!r}, only {', '.join(values)}"
                )
        return ReferenceSession(blueprint, trial, weights, self._arithmetic)

    def rounding(
        self,
        numbers: Numbers,
        *,
        backwards: bool = False,
        coarse: int | None = None,
        by_squares: bool = False,
    ) -> Engine:
        """The same engine in other numbers, and in another order of summation."""
        errors = None if coarse is None else np.random.default_rng(coarse)
        return ReferenceEngine(Arithmetic(numbers, backwards, errors, by_squares))

    def lively(self, blueprint: Blueprint, images: NDArray[np.uint8], seed: int) -> Weights:
        """Weights at which every op matters, and rounding little."""
        from convdyno.engines.reference_question import calm_lively

        return calm_lively(blueprint, contract.normalise(images), seed)

    def coverage(self, blueprint: Blueprint, weights: Weights, batch: Batch) -> list[FaultEffect]:
        """For every node and every way in which it can be wrong, how far the loss moves."""
        from convdyno.engines.reference_coverage import coverage

        images, labels = batch
        return coverage(blueprint, weights, contract.normalise(images), labels)

    def probe(self, blueprint: Blueprint, weights: Weights, images: NDArray[np.uint8]) -> Weights:
        """The kernel of the last layer, at which its scores are of a usual size."""
        from convdyno.engines.reference_question import last_kernel

        return last_kernel(blueprint, weights, contract.normalise(images))

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether the host's memory did not suffice."""
        return isinstance(error, MemoryError)


def engine() -> Engine:
    """The reference engine."""
    return ReferenceEngine()
