"""The one table of what is said of a cell: its names, where each value comes from, who shows it.

Machines read `name`; people read `title`, and the value as `write` has it. A name stands twice
where two views mean different things by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from convdyno.report.cell import Cell
from convdyno.report.format import (
    ONE_PROCESS,
    between,
    pairs,
    percent,
    rate,
    reached,
    settings_of,
    size,
    span,
    written,
)
from convdyno.trial.spec import Trial

Value = Callable[[Cell], Any]
Write = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Column:
    """One thing that is said of a cell."""

    name: str
    value: Value
    views: frozenset[str]
    """Which of `VIEWS`, `csv`, `older` and `page` have it."""
    title: str = ""
    """What stands above it for people, the unit where it has one; nothing if they do not see it."""
    write: Write | None = None
    """None for what needs no words: names and whole numbers."""

    def told(self, cell: Cell) -> Any:
        """The value for people."""
        value = self.value(cell)
        return value if self.write is None else self.write(value)


def _column(
    name: str, views: str, value: str | Value = "", title: str = "", write: Write | None = None
) -> Column:
    """A column; its value is the cell's attribute of that name unless another is given."""
    found = attrgetter(value or name) if isinstance(value, str) else value
    return Column(name, found, frozenset(views.split()), title, write)


def _fact(name: str) -> Value:
    """Something about the network, where it was loaded."""
    return lambda cell: getattr(cell.network, name) if cell.network else None


def _image(cell: Cell) -> str | None:
    image = cell.network.image if cell.network else cell.trial.image_size
    return written(image) if image else None


def _energy(cell: Cell) -> dict[str, Any] | None:
    """Whether joules are measured or unavailable; None for records of those who did not look."""
    if cell.energy is None:
        return None
    status = "unavailable" if cell.energy.reason else "measured"
    counted = list(cell.energy.counted)
    return {"status": status, "counted": counted, "reason": cell.energy.reason}


def _gpu_type(cell: Cell) -> Any:
    """What was allocated, which is what the older tool told."""
    return cell.job.get("gpu_type") or (None if cell.on_cpu else cell.settings.get("device_name"))


def _known(cell: Cell) -> float | None:
    """The upper end of an interval that knows how much processes differ."""
    return None if cell.one_process else cell.high


def _between(cell: Cell) -> str:
    return ONE_PROCESS if cell.one_process else between(cell.low, cell.high)


def _standing(cell: Cell) -> str:
    return "disturbed" if cell.status == "ok" and cell.disturbed else cell.status


def _staged_from(cell: Cell) -> str:
    return cell.trial.staged.partition("=")[0] if cell.trial.staged else cell.trial.data


ALL = "bench csv frame report"
"""The views that have every figure."""

COLUMNS: tuple[Column, ...] = (
    _column("id", f"{ALL} compare gate page"),
    _column("record", "compare report", lambda cell: str(cell.file)),
    _column("created", f"{ALL} compare gate", title="measured"),
    _column("created", "page", lambda cell: cell.created[:16]),
    _column("status", f"{ALL} gate page", title="status"),
    _column("standing", "", _standing, "status"),
    _column("reason", f"{ALL} gate"),
    _column("reason", "page", lambda cell: cell.reason or ""),
    _column("trial", "bench report compare gate", lambda cell: cell.trial.model_dump(mode="json")),
    _column("network", "csv page", "trial.network", "network"),
    _column("network_digest", ALL, _fact("digest")),
    _column("parameters", ALL, _fact("parameters")),
    _column("macs", ALL, _fact("macs")),
    _column("engine", "csv page", "trial.engine", "engine"),
    _column("mode", "csv page", "trial.mode", "mode"),
    _column("precision", "csv page", "trial.precision", "precision"),
    _column("batch", "csv page scaling", "trial.batch", "batch"),
    _column("global_batch", f"{ALL} page scaling", "trial.global_batch", "global batch"),
    _column("devices", "csv page scaling", "trial.devices", "devices"),
    _column("hosts", "csv scaling", "trial.hosts", "hosts"),
    _column("scaling", "csv", "trial.scaling"),
    _column("exchange", "csv scaling", "trial.exchange", "exchange"),
    _column("image_size", "csv", _image),
    _column("classes", "csv", lambda c: c.network.classes if c.network else c.trial.classes),
    _column("width", "csv", "trial.width"),
    _column("layout", "csv", lambda cell: cell.used("layout")),
    _column("compile", "csv", "trial.compile"),
    _column("threads", "csv", lambda cell: cell.used("threads")),
    _column("device", "csv", lambda cell: cell.used("device")),
    _column("data", "csv", "trial.data"),
    _column("settings", "", lambda cell: settings_of(cell.trial), "settings"),
    _column("images_per_second", f"{ALL} compare gate page scaling", title="images/s", write=rate),
    _column("interval", "bench report compare gate scaling", lambda cell: [cell.low, cell.high]),
    _column("low", "csv frame"),
    _column("high", "csv frame"),
    _column("mean_images_per_second", ALL, lambda cell: cell.headline and cell.headline.mean),
    _column("rate", "", lambda cell: reached(cell.images_per_second, _known(cell)), "images/s"),
    _column("between", "", _between, "95 % interval"),
    _column("interval_basis", ALL, lambda cell: cell.headline.basis if cell.headline else None),
    _column("rounds", f"{ALL} compare gate page", title="rounds"),
    _column("blocks", f"{ALL} page"),
    _column("contaminated_blocks", f"{ALL} page", "contaminated"),
    _column("step_seconds", ALL),
    _column("import_seconds", "bench frame report"),
    _column("build_seconds", "bench frame report"),
    _column("first_step_seconds", ALL, title="first step", write=span),
    _column("compile_seconds", "bench frame report"),
    _column("flops", ALL),
    _column("peak_flops", ALL),
    _column("share_of_peak", f"{ALL} page", title="of peak", write=percent),
    _column("wait_share", "bench frame report"),
    _column("loader_images_per_second", "bench frame report", lambda cell: cell.peaks.get("input")),
    _column("memory_bytes", f"{ALL} page", title="memory", write=size),
    _column("joules", ALL),
    _column("images_per_joule", f"{ALL} page", title="images/J", write=rate),
    _column("energy", "bench report", _energy),
    _column("energy", "csv", lambda cell: (_energy(cell) or {}).get("status")),
    _column("kernels", "csv", "trial.kernels"),
    _column("rung", "csv", "trial.rung"),
    _column("mean_time_per_step", "bench frame report", "legacy.mean_time_per_step"),
    _column("mean_speed", "bench frame report", "legacy.mean_speed"),
    _column("speed_uncertainty", "bench frame report", "legacy.speed_uncertainty"),
    _column("speed_jitter", "bench frame report", "legacy.speed_jitter"),
    _column("latency", "bench report", lambda cell: cell.latency and asdict(cell.latency)),
    _column("warnings", "bench report gate", lambda cell: list(cell.warnings)),
    _column("warnings", "frame", lambda cell: "; ".join(cell.warnings)),
    _column("host", "csv frame", title="machine"),
    _column("machine", "csv frame", "machine_kind"),
    _column("machine", "report compare page", title="machine"),
    _column("run", "csv frame"),
    _column("run", "page", "command"),
    _column("run", "report compare", "run_name"),
    _column("role", "csv frame report"),
    _column("labels", "csv", lambda cell: pairs(cell.labels, "; ")),
    _column("labels", "report compare", lambda cell: dict(cell.labels)),
    _column("versions", "csv", lambda cell: pairs(cell.versions, "; ")),
    _column("versions", "gate"),
    _column("settings", "gate", lambda cell: cell.settings or None),
    _column("convdyno", "csv frame gate"),
    _column("command", "csv frame gate"),
    _column("mean_speed", "older", "legacy.mean_speed"),
    _column("Mean_Time_Per_Step", "older", "legacy.mean_time_per_step"),
    _column("speed_uncertainty", "older", "legacy.speed_uncertainty"),
    _column("Speed_Jitter", "older", "legacy.speed_jitter"),
    _column("gpu_type", "older", _gpu_type),
    _column("num_gpu", "older", lambda c: c.job.get("num_gpu", 0 if c.on_cpu else c.trial.devices)),
    _column("staged_from", "older", _staged_from),
)
TOLD: Mapping[str, Column] = {column.name: column for column in COLUMNS if column.title}
"""What people see, by name."""
HEADLINE = ("rate", "between", "share_of_peak", "first_step_seconds", "memory_bytes", "standing")
"""The figures that stand in every table of cells for people."""
TABLE = ("network", "engine", "mode", "precision", "batch", "devices", "settings", *HEADLINE)


def view(name: str) -> tuple[Column, ...]:
    """The columns of a view for machines, in their order."""
    return tuple(column for column in COLUMNS if name in column.views)


VIEWS = ("bench", "compare", "report", "gate", "frame", "scaling")
_VIEWS = {name: view(name) for name in VIEWS}


def cell_data(cell: Cell, name: str = "bench", folder: Path | None = None) -> dict[str, Any]:
    """A cell for machines, unrounded, as a view has it; the folder is that of its record."""
    record = {} if folder is None else {"record": str(folder / f"{cell.id}.json")}
    return {column.name: column.value(cell) for column in _VIEWS[name]} | record


def cell_words(cell: Cell, names: Iterable[str] = TABLE) -> dict[str, Any]:
    """A cell for people, under titles."""
    return {TOLD[name].title: TOLD[name].told(cell) for name in names}


def flat_trial(trial: Trial) -> dict[str, Any]:
    """A trial as plain values."""
    return {
        **trial.model_dump(mode="json", exclude={"optimiser", "image_size"}),
        "image_size": written(trial.image_size) if trial.image_size else None,
        "optimiser": trial.optimiser.kind,
        "rate": trial.optimiser.rate,
    }


def flat(cell: Cell) -> dict[str, Any]:
    """A cell as one row of plain values, as data frames want it; `docs/python.md` lists them."""
    figures = {column.name: column.value(cell) for column in _VIEWS["frame"]}
    latency = asdict(cell.latency) if cell.latency else {}
    return {
        **{name: figures[name] for name in ("id", "created", "status", "reason")},
        **flat_trial(cell.trial),
        **figures,
        **{f"latency_{name}": value for name, value in latency.items()},
        **{
            f"setting.{name}": value
            for name, value in cell.settings.items()
            if value is None or isinstance(value, str | int | float)
        },
        **{f"label.{name}": value for name, value in cell.labels.items()},
        **{f"version.{name}": value for name, value in cell.versions.items()},
    }
