"""What one trial produced, failures included: raw samples and where they came from.

Nothing here is rounded and no statistic is stored: every figure is derived from the blocks.
"""

from __future__ import annotations

import datetime
import re
import secrets
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from convdyno import __version__
from convdyno.store.names import ID
from convdyno.trial.spec import Trial

SCHEMA: Literal[2] = 2
"""Records of schema 1 are read too, and their figures are made as they were made then."""

Status = Literal["ok", "failed", "oom", "timeout", "nan", "refused", "interrupted", "skipped"]
"""How a trial ended; `interrupted` means that the run was ended before its plan was, `skipped` that
it was not run because of what is known of another."""

CONTAMINATED_SHARE = 0.10
"""A block is contaminated when others used, or the hypervisor took, this share of all cores."""


RecordId = Annotated[str, Field(pattern=f"^{ID.pattern}$")]
_NUMBER, _WHOLE = WithJsonSchema({"type": "number"}), WithJsonSchema({"type": "integer"})
Seconds = Annotated[float, Field(gt=0, lt=1e12), _NUMBER]
Amount = Annotated[float, Field(ge=0, lt=1e24), _NUMBER]
Number = Annotated[float, Field(gt=-1e300, lt=1e300), _NUMBER]
Count = Annotated[int, Field(ge=0, lt=1 << 60), _WHOLE]
Steps = Annotated[int, Field(ge=1, lt=1 << 60), _WHOLE]
"""Numbers that can be reckoned with, because a record may come from anybody."""


class KnownFacts(BaseModel):
    """What is known of some facts in an object that may hold any others."""

    model_config = ConfigDict(extra="allow", strict=True)


class _MachineFacts(KnownFacts):
    """What figures and words are derived from; other facts are only shown."""

    host: str = ""
    cpu: str | None = None
    cores_usable: Count | None = None
    cores_logical: Count | None = None
    cpu_flags: list[str] | None = None
    memory_bytes: Count | None = None
    gpus: list[dict[str, str]] | None = None
    environment: dict[str, str] | None = None
    slurm: dict[str, Any] = {}


class _ChosenSettings(KnownFacts):
    """The same of what an engine chose."""

    device: str = ""
    device_name: str | None = None
    flags: dict[str, Any] = {}


def with_facts(kind: type[KnownFacts]) -> AfterValidator:
    """Facts of any kind, but those that we know must be what we know them to be."""

    def check(facts: dict[str, Any]) -> dict[str, Any]:
        try:
            kind.model_validate(facts)
        except ValidationError as wrong:
            error = wrong.errors()[0]
            raise ValueError(f"{'.'.join(map(str, error['loc']))}: {error['msg']}") from None
        return facts

    return AfterValidator(check)


class Frozen(BaseModel):
    """What is written down: it never changes, and has nothing that we do not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def but(self, **changes: Any) -> Self:
        """A copy with some fields replaced."""
        return self.model_copy(update=changes)


class _Frozen(Frozen):
    model_config = ConfigDict(use_attribute_docstrings=True)


class Block(_Frozen):
    """A few steps timed together, with one wait for the device at the end."""

    seconds: Seconds
    steps: Steps
    turn: Count = 0
    """Which turn of its round the block belongs to; turns of one number are neighbours in time."""
    foreign_share: Number = 0.0
    """CPU time that other processes used meanwhile, as a share of all cores."""
    steal_share: Number = 0.0
    """Time that the hypervisor took away meanwhile, as a share of all cores."""
    queued_seconds: Amount | None = None
    """Time in which threads of the process were ready to run and waited for a core, added up."""
    step_seconds: tuple[Seconds, ...] | None = None
    """Each step alone, when the trial measures latency."""
    wait_seconds: Amount | None = None
    """The time in which steps waited for data, where data are read at all."""
    joules: Amount | None = None
    """What processors and GPUs used meanwhile, where that is counted; see `Record.energy`."""

    @property
    def contaminated(self) -> bool:
        """Whether something else disturbed the block."""
        return self.foreign_share > CONTAMINATED_SHARE or self.steal_share > CONTAMINATED_SHARE


class Peak(_Frozen):
    """How fast the device was seen to be at one kind of pure work."""

    kind: str
    per_second: Amount
    """Floating-point operations per second; bytes for "copy", images for "input"."""
    seen: str | None = None
    """When, if not in this very process: a run takes over what an earlier one saw, UTC."""


class Rank(_Frozen):
    """One of the processes that ran a cell together, each with a device of its own."""

    rank: Count
    host: str
    local_rank: Count = 0
    pid: Count = 0
    device: str = ""
    """The one that it used."""
    visible: str | None = None
    """The GPUs that it was shown (`CUDA_VISIBLE_DEVICES`); None where nobody limited them."""
    allocated: str | None = None
    """The GPUs that the batch system gave to the job; None without one."""
    cores: tuple[Count, ...] = ()
    """The CPU cores that it was allowed to use."""
    seconds: tuple[Amount, ...] = ()
    """Its own time of each block, in the order of the process's blocks."""
    last_loss: float | None = None
    peak_memory_bytes: Count | None = None
    device_memory_bytes: Count | None = None
    clock_skew_seconds: Number | None = None
    """How far its host's clock is ahead of the parent's."""


class Process(_Frozen):
    """One fresh process, or one for each device: the cell's part of one round."""

    round: Count
    sitting: Count = 0
    """Cells of one sitting were interleaved; with little memory a round has several sittings."""
    host: str = ""
    pid: Count = 0
    opened_beside: Count = 0
    """Other cells that were opened at the same time: import, build and first step took longer."""
    import_seconds: Amount | None = None
    build_seconds: Amount | None = None
    first_step_seconds: Amount | None = None
    warmup_seconds: Amount | None = None
    steady: bool | None = None
    warmup: tuple[Block, ...] = ()
    blocks: tuple[Block, ...] = ()
    first_loss: float | None = None
    losses: tuple[float, ...] = ()
    """Of the first steps, one by one, where more than the first was asked for."""
    last_loss: float | None = None
    recompilations: Count = 0
    """Compilations that happened inside the measurement."""
    peak_memory_bytes: Count | None = None
    device_memory_bytes: Count | None = None
    peaks: tuple[Peak, ...] = ()
    ranks: tuple[Rank, ...] = ()
    """Everybody who took part, where that was not one plain process. A block is as long then as its
    slowest rank; of independent ones the rates add up."""

    @property
    def clean(self) -> tuple[Block, ...]:
        """The blocks that count: undisturbed ones, or all where every one was disturbed."""
        return tuple(b for b in self.blocks if not b.contaminated) or self.blocks


class Energy(_Frozen):
    """Whether joules were measured, and of what; they are never estimated."""

    counted: tuple[str, ...] = ()
    """The counters that were added up, such as `package-0`."""
    reason: str = ""
    """Why nothing was counted, `in short: at length`; empty where something was."""


class NetworkFacts(_Frozen):
    """The network that was run, so that unlike ones are never compared."""

    digest: str
    parameters: Count
    macs: Count
    """Of one image's forward pass."""
    image: tuple[Count, Count, Count]
    classes: Count
    nodes: Count


class KnownVariance(_Frozen):
    """What earlier runs on the machine had shown of how much rounds vary, when this one ended."""

    freedom: Amount
    """How many rounds that is worth."""
    between: Amount
    """The variance of logarithms from process to process."""
    scale: Amount
    """What the variance of rounds usually is, over what `between` and their turns make of it."""


class Record(_Frozen):
    """Everything one trial produced."""

    schema_version: Literal[1, 2] = SCHEMA
    id: RecordId
    """The name of its file, wherever it is taken to: so it is one, and no path."""
    created: str
    """UTC, ISO 8601."""
    convdyno: str = __version__
    trial: Trial
    trial_digest: str
    status: Status = "interrupted"
    reason: str | None = None
    network: NetworkFacts | None = None
    settings: Annotated[dict[str, Any], with_facts(_ChosenSettings)] | None = None
    """What `auto` became, and the framework's switches that change speed."""
    input: dict[str, Any] | None = None
    """Where real data came from and how they were decoded and cut."""
    energy: Energy | None = None
    """None where nobody looked."""
    versions: dict[str, str] = {}
    machine: Annotated[dict[str, Any], with_facts(_MachineFacts)] = {}
    command: str = ""
    """What to type to repeat it."""
    preset: str | None = None
    """The preset that settings were taken from, where they were not given."""
    role: str = ""
    """What it was measured for, if not for itself: base, candidate or control of a gate."""
    run: str = ""
    """Cells of one run have the same: they were measured in turns, so their rounds are pairs."""
    labels: dict[str, str] = {}
    """What the user calls it by; they describe and are no part of the trial's identity."""
    processes: tuple[Process, ...] = ()
    looks: Steps = 1
    """How often the precision was looked at, if a look ended the run: the interval needs it."""
    borrowed: dict[Literal["rate", "ratio"], KnownVariance] = {}
    """What the intervals borrow from earlier runs: kept here, so that they stay what they are."""
    choice: str | None = None
    """How the batch was chosen, where none was given."""
    warnings: tuple[str, ...] = ()

    @property
    def measured(self) -> tuple[Process, ...]:
        """The processes that have at least one block."""
        return tuple(process for process in self.processes if process.blocks)

    @property
    def peaks(self) -> dict[str, float]:
        """The best rate seen of each kind of pure work."""
        best: dict[str, float] = {}
        for peak in (peak for process in self.processes for peak in process.peaks):
            best[peak.kind] = max(best.get(peak.kind, 0.0), peak.per_second)
        return best


def new_record(trial: Trial, **facts: Any) -> Record:
    """An empty record of a trial that is about to run."""
    now = datetime.datetime.now(datetime.UTC)
    name = re.sub(r"[^A-Za-z0-9._]+", "-", f"{trial.network}-{trial.engine}").strip("-")
    return Record(
        id=f"{now:%Y%m%dT%H%M%S}-{name[:60]}-{trial.digest[:8]}-{secrets.token_hex(4)}",
        created=now.isoformat(timespec="milliseconds"),
        trial=trial,
        trial_digest=trial.digest,
        **facts,
    )
