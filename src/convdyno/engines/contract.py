"""What an engine owes: it loads a blueprint on a device and runs steps. Nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint, Node
from convdyno.blueprint.ops import Dropout, Op, Shape
from convdyno.blueprint.weights import Weights as Weights
from convdyno.errors import Refused
from convdyno.trial.spec import Optimiser as Optimiser
from convdyno.trial.spec import Trial as Trial
from convdyno.trial.world import World as World

Batch = Any
"""Images and labels on the device, in the engine's own types; opaque to everybody else."""
State = dict[str, NDArray[Any]]
"""What training remembers besides the weights, so that any engine can go on.

    updates                        how many there have been (int64)
    velocity/NAME                  of SGD with momentum; the learning rate is not in it
    first/NAME, second/NAME        the moments of Adam
    average/NAME                   the moving average of each weight, statistics too
    scale/value, scale/good_steps  a dynamic loss scale, and for how many steps it has been good
    random/ENGINE/...              where random numbers stand
    own/ENGINE/...                 what makes going on in the same engine exact to the bit

NAME is a weight's canonical name and its array has the canonical layout, in float32. What a session
cannot use of the last three kinds it does without. With the weights and the state of one instant
loaded and restored, a session is back at that instant exactly.
"""
OPTIONAL = ("scale/", "random/", "own/")
Numbers = Literal["exact", "fp32", "bf16", "fp16", "tf32"]
"""What an oracle can compute in: float64, or as an engine at a precision would round."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A piece of pure work that shows how fast the device can be."""

    kind: str
    """"matmul", "conv" or "copy"."""
    work: float
    """Floating-point operations of one run; bytes moved for "copy"."""
    run: Callable[[], object]
    """Enqueue the work once; what is returned has the result when the session has waited."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What `auto` became: the conditions a session really runs under, for the record."""

    device: str
    device_name: str
    layout: str
    compiled: bool
    threads: int
    flags: dict[str, object] = field(default_factory=dict)
    """Framework switches that change speed."""
    warnings: tuple[str, ...] = ()
    """Conditions that the user should know of, each with what to do."""


class Session(Protocol):
    """A network loaded on its device, ready to step. Benchmarking and training use the same one."""

    settings: SessionSettings
    clock: Callable[[], int]
    """Nanoseconds that only go forward: `time.perf_counter_ns` wherever time is real."""

    def place(self, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> Batch:
        """Bring a host batch (NHWC bytes) to the device; normalise to [-1, 1] and lay out there."""

    def train_step(self, batch: Batch) -> None:
        """Enqueue one update of the weights; does not wait for the device."""

    def infer_step(self, batch: Batch) -> None:
        """Enqueue one forward pass as in use; does not wait for the device."""

    def wait(self) -> None:
        """Return when the device has finished everything enqueued."""

    def loss(self) -> float:
        """The mean loss of the latest training step's batch, before its update."""

    def logits(self, batch: Batch) -> NDArray[np.float32]:
        """The class scores of the first head as in use, one row an image."""

    def gradients(self, batch: Batch) -> Weights:
        """The training loss's gradient (without L2) by each trainable weight; changes nothing."""

    def weights(self) -> Weights:
        """All weights in canonical names and layouts, float32."""

    def load(self, weights: Weights) -> None:
        """Replace all weights; before the first update their moving average starts anew there."""

    def state(self) -> State:
        """Everything else that training remembers."""

    def restore(self, state: State) -> None:
        """Go on from a state, once its weights are loaded; `Refused` says what does not fit."""

    def set_rate(self, rate: float) -> None:
        """The learning rate from the next step on; it is not part of the state."""

    def compilations(self) -> int:
        """How many times something has been compiled so far; 0 where nothing ever is."""

    def memory_bytes(self) -> int | None:
        """The peak of device memory held, where the device has memory of its own."""

    def probes(self) -> Sequence[Probe]:
        """Work at the trial's precision that shows the device's peak: matmul, conv and copy."""


@runtime_checkable
class Fitter(Protocol):
    """A session whose framework can also run many steps in one call of its own."""

    def fit(self, batch: Batch, steps: int) -> None:
        """So many steps of the trial's mode on one batch."""

    def fit_from(self, batches: Iterator[Batch], steps: int) -> None:
        """So many steps of the trial's mode, each on a batch of its own."""


class Engine(Protocol):
    """A framework, imported; made once per worker process."""

    def versions(self) -> dict[str, str]:
        """The framework's version and those of the libraries that do its arithmetic."""

    def join(self, world: World, trial: Trial) -> None:
        """Take part in a world, before anything is opened; `Refused` says why not.

        From then on training steps average gradients over all ranks; batch-norm statistics stay
        each rank's own. Nothing else of a session communicates.
        """

    def leave(self) -> None:
        """Part from the others, who leave too."""

    def open(self, blueprint: Blueprint, trial: Trial, weights: Weights) -> Session:
        """Load a network; `Refused` says what this engine can do instead."""

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether an exception means that the device's memory did not suffice."""


@dataclass(frozen=True)
class Treatment:
    """What a framework's own loader does to an image."""

    size: tuple[int, int]
    """Height and width."""
    channels: int = 3
    train: bool = True
    area: tuple[float, float] = (0.08, 1.0)
    """Of a random crop, as a share of the image."""
    aspect: tuple[float, float] = (3 / 4, 4 / 3)
    jitter: bool = False
    """Random colours: brightness 32/255, saturation and contrast 0.5 to 1.5, hue 0.2."""
    antialias: bool = False


@dataclass(frozen=True)
class Material:
    """Real data as a framework's own loader takes them: exactly one of the first three."""

    files: Sequence[tuple[str, int]] | None
    """Paths of images, each with its label."""
    records: Sequence[str] | None
    """Paths of TFRecord files."""
    arrays: tuple[NDArray[np.uint8], NDArray[np.int64]] | None
    first_label: int
    """The label of the first class in the records."""
    treatment: Treatment
    """What is done to each image."""
    batch: int
    seed: int
    threads: int
    prefetch: int


@runtime_checkable
class HasLoader(Protocol):
    """An engine whose framework has a way of its own to read images."""

    def batches(self, material: Material) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Batches of NHWC bytes and labels, made as the framework's users make them."""


@runtime_checkable
class OpByOp(Protocol):
    """An engine that usually compiles a network as a whole, and can do without."""

    def op_by_op(self) -> AbstractContextManager[object]:
        """Run the same ops one after the other from here on: slower steps, no long compilation."""


@dataclass(frozen=True, slots=True)
class FaultEffect:
    """What one way of being wrong does to the answer."""

    node: str
    op: str
    change: str
    """What is wrong: `left out`, or the name of a number that is off."""
    share: float
    """By how much the number is off; 1 where the op itself is another."""
    moved: float
    """How far the loss moves."""


@runtime_checkable
class Oracle(Protocol):
    """The engine that is right: it also knows what to ask, and what rounding does to an answer."""

    def lively(self, blueprint: Blueprint, images: NDArray[np.uint8], seed: int) -> Weights:
        """Weights at which every op matters, and rounding little."""

    def probe(self, blueprint: Blueprint, weights: Weights, images: NDArray[np.uint8]) -> Weights:
        """The kernel of the last layer, at which its scores are of a usual size."""

    def coverage(self, blueprint: Blueprint, weights: Weights, batch: Batch) -> list[FaultEffect]:
        """For every node and every way in which it can be wrong, how far the loss moves."""

    def rounding(
        self,
        numbers: Numbers,
        *,
        backwards: bool = False,
        coarse: int | None = None,
        by_squares: bool = False,
    ) -> Engine:
        """The same engine in other numbers, and in another order of summation.

        With a seed its errors are so coarse that what is near a kink falls to either side of it.
        Variances can come by squares: what is quicker, and loses digits where a mean is large.
        """


@dataclass
class Walk:
    """A blueprint on its way into a framework, node by node."""

    blueprint: Blueprint
    node: Node = field(init=False)
    """The present one."""

    @property
    def shape(self) -> Shape:
        """What the present node reads."""
        return self.blueprint.shapes[self.node.inputs[0]]

    def values(self, table: Mapping[type[Op], Callable[..., Any]]) -> dict[str, Any]:
        """What an engine's table of ops makes of each node, by its name."""
        values: dict[str, Any] = {}
        for node in self.blueprint.nodes:
            self.node = node
            inputs = [values[name] for name in node.inputs]
            values[node.name] = table[type(node.op)](self, node.op, *inputs)
        return values


def normalise(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes as every engine's network sees them: 0..255 becomes -1..1."""
    return images.astype(np.float32) / np.float32(127.5) - np.float32(1)


def memories(optimiser: Optimiser) -> tuple[str, ...]:
    """What an update rule remembers of each trainable weight."""
    if optimiser.kind == "adam":
        return "first", "second"
    return ("velocity",) if optimiser.momentum else ()


def decays(optimiser: Optimiser, name: str) -> bool:
    """Whether the L2 term applies to the weight of that canonical name."""
    return optimiser.decay_on == "all" or name.endswith("/kernel")


def drops(blueprint: Blueprint) -> bool:
    """Whether training draws random numbers."""
    return any(isinstance(node.op, Dropout) and node.op.rate for node in blueprint.nodes)


def unscaled(scale: float, gradients: Callable[[float], Weights]) -> Weights:
    """Gradients at a loss scale; as in training with a dynamic one, until nothing overflows."""
    while True:
        found = gradients(scale)
        if scale <= 1 or all(np.isfinite(array).all() for array in found.values()):
            return found
        scale /= 2


def state_shapes(blueprint: Blueprint, optimiser: Optimiser) -> dict[str, Shape]:
    """What every engine's state has, whatever else is in it."""
    shapes: dict[str, Shape] = {"updates": ()}
    for kind in memories(optimiser):
        shapes |= {f"{kind}/{name}": shape for name, shape in blueprint.trainable.items()}
    if optimiser.ema is not None:
        shapes |= {f"average/{name}": shape for name, shape in blueprint.weights.items()}
    return shapes


def check_state(blueprint: Blueprint, optimiser: Optimiser, state: State) -> None:
    """Refuse a state of another network or another update rule."""
    shapes = state_shapes(blueprint, optimiser)
    found = {name: array for name, array in state.items() if not name.startswith(OPTIONAL)}
    scales = {name: array for name, array in state.items() if name.startswith("scale/")}
    if scales:
        shapes |= dict.fromkeys(("scale/value", "scale/good_steps"), ())
        found |= scales
    wrong = f"the training state is not of {blueprint.name} with this optimiser: "
    for name in shapes:
        if name not in found:
            raise Refused(f"{wrong}there is no {name!r}")
    for name, array in found.items():
        if name not in shapes:
            raise Refused(f"{wrong}nothing takes up {name!r}")
        if array.shape != shapes[name]:
            raise Refused(f"{wrong}{name!r} has the shape {array.shape}, not {shapes[name]}")


def seed_after(seed: int, updates: int) -> int:
    """Where random numbers start when training goes on without knowing where they stood."""
    return int(np.random.SeedSequence([seed, updates]).generate_state(1)[0]) >> 1
