"""What Slurm is asked for: `--slurm partition=GPU,gres=gpu:k80,time=15`, by sbatch's own names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from convdyno.errors import UnknownName, UsageError
from convdyno.trial.spec import Trial

VALUES = frozenset({
    "account", "begin", "clusters", "comment", "constraint", "core-spec", "cores-per-socket",
    "cpu-freq", "cpus-per-gpu", "cpus-per-task", "deadline", "delay-boot", "distribution",
    "exclude", "export", "extra-node-info", "gpu-bind", "gpu-freq", "gpus", "gpus-per-node",
    "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "hint", "licenses", "mail-type",
    "mail-user", "mcs-label", "mem", "mem-per-cpu", "mem-per-gpu", "mincpus", "network", "nice",
    "nodelist", "nodes", "partition", "prefer", "priority", "profile", "qos", "reservation",
    "signal", "sockets-per-node", "switches", "thread-spec", "threads-per-core", "time", "time-min",
    "tmp", "wckey",
})  # fmt: skip
"""Options that have a value."""
FLAGS = frozenset({
    "contiguous", "exclusive", "hold", "no-requeue", "oversubscribe", "reboot", "requeue",
    "spread-job", "use-min-nodes",
})  # fmt: skip
"""Options that need none."""
OURS = {
    "ntasks": "there is one task for each device: give --devices",
    "ntasks-per-node": "there is one task for each device: give --devices, and nodes=",
    "array": "every cell is a job of its own",
    "dependency": "with exclusive=no every job waits for the one before it",
    "chdir": "jobs run in the folder where they were submitted",
    "job-name": "jobs are called by their run and number",
    "output": "jobs write to the results folder: give --out",
    "error": "jobs write to the results folder: give --out",
}
"""Options that are not the user's to give, and why."""
GPU_OPTIONS = ("gres", "gpus-per-node", "gpus")


@dataclass(frozen=True)
class Order:
    """The options of a job; what depends on the number of devices is filled in for each."""

    options: dict[str, str]
    """By sbatch's long names; an empty value is a flag."""

    @property
    def exclusive(self) -> bool:
        """Whether a job has its nodes to itself; `exclusive=no` shares them."""
        return self.options.get("exclusive") != "no" and "oversubscribe" not in self.options

    @property
    def nodes(self) -> int:
        """How many nodes a job has at the most."""
        return int(self.options.get("nodes", "1"))

    @property
    def cpus(self) -> int | None:
        """CPU cores of each task, where they are given."""
        word = self.options.get("cpus-per-task")
        return int(word) if word else None

    @property
    def gpu(self) -> str | None:
        """The kind of GPU, or just `gpu` where none is named; None without any."""
        return next((kind or "gpu" for kind, _ in self._gpus().values()), None)

    @property
    def gpus(self) -> int | None:
        """How many GPUs in all were asked for, where a number was."""
        for name, (_, count) in self._gpus().items():
            if count:
                return count if name == "gpus" else count * self.nodes
        return None

    @property
    def kind(self) -> str:
        """The partition and the kind of GPU: what tells one order from another."""
        words = [self.options.get("partition", "default"), self.gpu]
        return "/".join(word for word in words if word)

    @property
    def minutes(self) -> float | None:
        """The time limit; None where there is none, or Slurm must say what it means."""
        return minutes(self.options.get("time", ""))

    # As a `Room`: how cells are shaped by where they will run.

    def counts(self, wanted: Sequence[int] | None) -> list[int]:
        """What was asked for, or a device for each GPU."""
        return list(wanted or (self.gpus or 1,))

    def hosts(self, devices: int) -> int:
        """As many nodes as were asked for, if there are devices for all."""
        return min(self.nodes, devices)

    def cores(self, most: int, device: str) -> int | None:
        """As many as each task has; a job finds out by itself what was not said."""
        return self.cpus

    def header(self, trial: Trial) -> dict[str, str]:
        """The options of the job that runs a trial."""
        options = {k: v for k, v in self.options.items() if k != "exclusive"}
        options |= self.for_step(trial)
        if self.exclusive:
            options["exclusive"] = self.options.get("exclusive", "")
        return options | {
            "nodes": str(trial.hosts),
            "ntasks": str(tasks_of(trial)),
            "ntasks-per-node": str(tasks_of(trial) // trial.hosts),
        }

    def for_step(self, trial: Trial) -> dict[str, str]:
        """The options that srun must be told again; a whole node's job has all of its GPUs."""
        found = {}
        for name in self._gpus():
            count = trial.devices if name == "gpus" else trial.devices // trial.hosts
            found[name] = _counted(name, self.options[name], count)
        cores = trial.cores_per_process or self.cpus
        return found | ({"cpus-per-task": str(cores)} if cores else {})

    def _gpus(self) -> dict[str, tuple[str, int | None]]:
        """The kind and the count of GPUs, by each option that asks for some."""
        asked = {name: self.options[name] for name in GPU_OPTIONS if name in self.options}
        found = {name: _gpu_of(name, value) for name, value in asked.items()}
        return {name: gpus for name, gpus in found.items() if gpus is not None}


def kinds(orders: Sequence[Order]) -> list[str]:
    """What each of several orders is known by; what else they differ in where that is needed."""
    found = []
    for order in orders:
        alike = [other.options for other in orders if other.kind == order.kind]
        more = [
            f"{key}={value}"
            for key, value in sorted(order.options.items())
            if any(other.get(key) != value for other in alike)
        ]
        found.append(",".join([order.kind, *more]))
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise UsageError(f"two of the --slurm ask for the same: {twice}")
    return found


def tasks_of(trial: Trial) -> int:
    """How many processes a trial's job starts."""
    return trial.hosts * trial.processes_per_host


def read_order(text: str) -> Order:
    """The options of one `--slurm`; what does not fit is one sentence."""
    options: dict[str, str] = {}
    for name, value in _pairs(text):
        if name in OURS:
            raise UsageError(f"--slurm cannot have {name}=: {OURS[name]}")
        if name not in VALUES | FLAGS:
            raise UnknownName("option of sbatch", name, sorted(VALUES | FLAGS))
        if name in options:
            raise UsageError(f"--slurm has {name} twice: {text!r}")
        if not value and name in VALUES:
            raise UsageError(f"--slurm has no value for {name}: write {name}=...")
        if not value.isprintable():
            raise UsageError(f"--slurm has a character in {name}= that cannot be written")
        options[name] = value
    for name in ("nodes", "cpus-per-task"):
        if name in options and not re.fullmatch(r"[1-9][0-9]{0,5}", options[name]):
            raise UsageError(f"--slurm {name}= is a whole number here, not {options[name]!r}")
    return Order(options)


def minutes(word: str) -> float | None:
    """A time as Slurm reads it: minutes, minutes:seconds, days-hours, ...; None if it is none."""
    found = re.fullmatch(r"(?:([0-9]+)-)?([0-9]+)(?::([0-9]+))?(?::([0-9]+))?", word)
    if not found:
        return None
    days, *rest = found.groups()
    parts = [float(part) for part in rest if part is not None]
    if days is None and len(parts) < 3:
        parts.insert(0, 0.0)  # Without days and seconds, or hours, it begins with minutes.
    hours, mins, seconds = (*parts, 0.0, 0.0)[:3]
    return (24 * float(days or 0) + hours) * 60 + mins + seconds / 60


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Names and values; a part that is neither belongs to the value before it: `nodelist=a,b`."""
    pairs: list[list[str]] = []
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name = name.strip().removeprefix("--")
        if equals and re.fullmatch(r"[a-z][a-z-]*", name):
            pairs.append([name, value.strip()])
        elif name in FLAGS or (not pairs and name):
            pairs.append([name, ""])
        elif pairs and part.strip():
            pairs[-1][1] += f",{part.strip()}"
        else:
            raise UsageError(f"--slurm is a list such as partition=GPU,gres=gpu:k80, not {text!r}")
    return ((name, value) for name, value in pairs)


def _gpu_of(option: str, value: str) -> tuple[str, int | None] | None:
    """The kind and the count of the GPUs in an option's value; None if it has none."""
    for item in value.split(","):
        kind, *rest = item.split(":") if option == "gres" else ["gpu", *item.split(":")]
        if kind.removeprefix("gres/") == "gpu":
            names = [word for word in rest if word and not word.isdecimal()]
            counts = [int(word) for word in rest if word.isdecimal()]
            return (names[0] if names else "", counts[0] if counts else None)
    return None


def _counted(option: str, value: str, count: int) -> str:
    """An option's value with so many GPUs."""
    items = []
    for item in value.split(","):
        words = item.split(":")
        if option != "gres" or words[0].removeprefix("gres/") == "gpu":
            names = [word for word in words if word and not word.isdecimal()]
            item = ":".join([*names, str(count)])
        items.append(item)
    return ",".join(items)
