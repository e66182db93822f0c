"""What to run: one immutable, validated cell. Its digest is its identity."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from convdyno.errors import UsageError
from convdyno.trial import choices

LossScale = Annotated[float, Field(gt=0)] | Literal["dynamic"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Optimiser(_Frozen):
    """The update rule and its numbers; `docs/method.md` gives the mathematics."""

    kind: choices.OptimiserKind = "sgd"
    rate: Annotated[float, Field(gt=0)] = 0.001
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = True
    epsilon: Annotated[float, Field(gt=0)] = 1e-8
    """Adam's: what is added to the root of the second moment."""
    weight_decay: Annotated[float, Field(ge=0)] = 1e-4
    """L2: this times the weight is added to its gradient."""
    decay_on: Literal["all", "kernels"] = "all"
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    """The largest norm that all gradients together may have."""
    larc_eta: Annotated[float, Field(gt=0)] | None = None
    """LARC's trust coefficient; None leaves gradients as they are."""
    larc_mode: choices.LarcMode = "clip"
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The share of each target that all classes get alike."""
    ema: Annotated[float, Field(gt=0, lt=1)] | None = None
    """What an exponential moving average of all weights keeps of itself at each update."""


class Trial(_Frozen):
    """One cell: a network on an engine, with every condition that changes speed or result."""

    network: str
    engine: str
    mode: choices.Mode = "train"
    batch: Annotated[int, Field(ge=1)]
    """Images per device and step."""
    precision: choices.Precision = "fp32"
    loss_scale: LossScale | None = None
    """fp16 training only; None means dynamic there."""
    layout: choices.Layout = "auto"
    compile: choices.Switch = "auto"
    kernels: choices.Kernels = "native"
    """What the framework's users write, or our fastest form of the same mathematics."""
    feed: choices.Feed = "batch"
    """For Keras: one call a batch (`train_on_batch`), or one call for many (`fit`)."""
    threads: Annotated[int, Field(ge=1)] | None = None
    """CPU threads; None is one for each core that the worker may use."""
    device: str = "auto"
    image_size: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = None
    """Height and width; None is the network's own."""
    classes: Annotated[int, Field(ge=2)] | None = None
    width: Annotated[float, Field(gt=0)] = 1.0
    auxiliary: bool = False
    """Train with the network's auxiliary heads."""
    data: str = "synthetic"
    """A name or a path; with real data, training reads the train split and inference the other."""
    rung: choices.Rung = "source"
    """From where real data come: the source itself; its bytes or its decoded images held in memory;
    one batch from the host; one batch that stays on the device."""
    loader: choices.Loader = "own"
    """Our pipeline, or the one that the framework's users write."""
    decoder: choices.Decoder = "auto"
    crop: choices.Crop = "auto"
    """How a training image is cut out; auto is by the kind of the data."""
    view: choices.View = "auto"
    """How an image is cut out in inference and evaluation."""
    resize: choices.Resize = "plain"
    colour: choices.Colour = "off"
    """Random brightness, saturation, hue and contrast, as one matrix or step by step."""
    input_threads: Annotated[int, Field(ge=1)] | None = None
    """Threads that decode; None is one for each core that the worker may use."""
    prefetch: Annotated[int, Field(ge=1)] = 4
    """Batches that may be ready ahead."""
    on_bad: choices.OnBad = "error"
    staged: str | None = None
    """`LABEL=FOLDER`: the data were copied there first; storage as an axis."""
    optimiser: Optimiser = Optimiser()
    latency: bool = False
    """Wait for the device after every step instead of after a block of steps."""
    devices: Annotated[int, Field(ge=1)] = 1
    """How many train together, each on a batch of its own."""
    hosts: Annotated[int, Field(ge=1)] = 1
    """Over how many machines they are spread."""
    slurm: str | None = None
    """What Slurm was asked for: the partition and the kind of GPU, such as `GPU/k80`."""
    cores: Annotated[int, Field(ge=1)] | None = None
    """CPU cores that each device has to itself; None is all of the machine."""
    scaling: choices.Scaling = "weak"
    """Whether `batch` or the batch of all devices together was held when devices were added."""
    exchange: choices.Exchange = "default"
    """How gradients are averaged; independent devices do not, which is the upper bound."""
    bucket_mb: Annotated[float, Field(gt=0)] | None = None
    """Gradients that are exchanged at a time, where the engine has a choice."""
    compress: choices.Compress = "none"
    """Gradients as they are on the wire."""
    accumulate: Annotated[int, Field(ge=1)] = 1
    """Parts of a batch that are computed one after the other before one exchange."""
    processes: choices.Processes = "device"
    """One process for each device, or for all devices of a host."""
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _consistent(self) -> Trial:
        if self.loss_scale is not None and (self.precision != "fp16" or self.mode != "train"):
            raise ValueError("a loss scale is for training in fp16")
        if self.auxiliary and self.mode == "infer":
            raise ValueError("auxiliary heads are for training; inference never runs them")
        if self.devices % self.hosts:
            raise ValueError(
                f"{self.devices} devices cannot be spread evenly over {self.hosts} hosts"
            )
        if self.batch % self.accumulate:
            raise ValueError(
                f"a batch of {self.batch} cannot be cut into {self.accumulate} equal parts"
            )
        if self.mode == "infer" and self.accumulate > 1:
            raise ValueError("gradients accumulate in training; inference has none")
        return self

    @property
    def global_batch(self) -> int:
        """Images of a step on all devices together."""
        return self.batch * self.devices

    @property
    def processes_per_host(self) -> int:
        """How many processes run on each machine."""
        return 1 if self.processes == "host" else self.devices // self.hosts

    @property
    def cores_per_process(self) -> int | None:
        """CPU cores of all devices that a process has, where they are given."""
        devices = self.devices // self.hosts // self.processes_per_host
        return self.cores and self.cores * devices

    @property
    def has_ranks(self) -> bool:
        """Whether it needs more than one plain process that has the machine to itself."""
        return self.devices > 1 or self.cores is not None

    @property
    def digest(self) -> str:
        """The identity of the trial; defaults do not enter, so a new axis changes no digest."""
        data = self.model_dump(mode="json", exclude_defaults=True)
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()

    def differs_in(self, other: Trial) -> list[str]:
        """The fields in which two trials differ."""
        return [name for name in Trial.model_fields if getattr(self, name) != getattr(other, name)]

    @property
    def label(self) -> str:
        """A short name for people."""
        many = f" on {self.devices} devices" if self.devices > 1 else ""
        exchange = f", {self.exchange}" if self.exchange != "default" else ""
        what = f"{self.network} {self.engine} {self.mode} {self.precision}"
        return f"{what} batch {self.batch}{many}{exchange}"


def make_trial(**values: object) -> Trial:
    """A trial from loose values; what does not fit is a sentence that names the field."""
    try:
        return Trial.model_validate(values)
    except ValidationError as wrong:
        error = wrong.errors()[0]
    field = ".".join(str(part) for part in error["loc"] if not str(part).startswith("function-"))
    message = error["msg"].removeprefix("Value error, ")
    raise UsageError(f"{field} cannot be {error['input']!r}: {message}" if field else message)
