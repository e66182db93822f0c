"""Joules, where the machine counts them: RAPL for processors, NVML for NVIDIA's GPUs.

Nothing is ever estimated. Counters are of the whole processor or the whole GPU, so whatever else
runs there is counted too.

Linux shows RAPL's counters as a tree of zones. A package's energy contains that of its cores and
its graphics, and a platform's (`psys`) contains that of all packages; memory (`dram`) is counted
beside its package. So packages and memory are added up, and nothing else.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convdyno.machine import processor
from convdyno.machine.facts import visible_gpus
from convdyno.store.record import Energy

POWERCAP = Path("/sys/class/powercap")
FAKE = "CONVDYNO_POWERCAP"
"""The variable that names another folder of RAPL's zones, for trying things out."""


@dataclass(frozen=True)
class Counter:
    """Something that counts joules, from any start."""

    name: str
    identity: str
    """The same for everybody on a machine who reads the same counter."""
    read: Callable[[], float]
    wraps_at: float | None = None
    """The reading after which it begins at zero again."""

    def between(self, before: float, after: float) -> float:
        """The joules from one reading to a later one; it may have begun again once."""
        if after < before and self.wraps_at is not None:
            after += self.wraps_at
        return max(0.0, after - before)


@dataclass(frozen=True)
class Joules:
    """All counters that one process reads for its trial."""

    counters: tuple[Counter, ...] = ()
    reason: str = ""
    """Why nothing can be counted, `in short: at length`; empty where it can."""
    names: tuple[str, ...] = ()
    """What is counted, by this process and others on its machine together."""

    def read(self) -> tuple[float, ...] | None:
        """The readings now; None where nothing is counted, or a counter does not answer."""
        if self.reason:
            return None
        try:
            return tuple(counter.read() for counter in self.counters)
        except Exception:  # Whatever a driver raises: that is no reason to lose the trial.
            return None

    def since(self, before: Sequence[float] | None) -> float | None:
        """The joules since some readings; None where they are not known."""
        now = self.read()
        if before is None or now is None:
            return None
        each = zip(self.counters, before, now, strict=True)
        return sum(counter.between(then, later) for counter, then, later in each)

    def facts(self) -> Energy:
        """What the record says of it."""
        return Energy(counted=self.names, reason=self.reason)

    def shared(self, everybody: Sequence[tuple[str, Sequence[str]]], rank: int) -> Joules:
        """What is left to one rank of several: each counter of a machine is read by one of them.

        `everybody` has, for each rank, its machine and the identities of its counters.
        """
        here, _ = everybody[rank]
        taken = {name for where, names in everybody[:rank] if where == here for name in names}
        mine = tuple(counter for counter in self.counters if counter.identity not in taken)
        return Joules(mine, self.reason, self.names)


def find(device: str, count: int = 1, *, powercap: Path | None = None, nvml: Any = None) -> Joules:
    """The counters for a process on a device such as `cpu` or `cuda:0`, or why there are none.

    On GPUs (`count` of them, from that one on) the processors are counted too where they can be.
    """
    folder = powercap or Path(os.environ.get(FAKE, POWERCAP))
    found, reason = _rapl(folder)
    if device.partition(":")[0] in ("cuda", "gpu"):
        cards, reason = _nvml(int(device.partition(":")[2] or 0), count, nvml)
        found = [*found, *cards] if cards else []
    return Joules(tuple(found), "" if found else reason, tuple(one.name for one in found))


def _rapl(folder: Path) -> tuple[list[Counter], str]:
    """Packages and memory; the same through another door (`intel-rapl-mmio`) is not taken twice."""
    found = sorted(folder.glob("intel-rapl:*"))
    zones = {zone: processor.text_of(zone / "name").strip() for zone in found}
    packages = [zone for zone, name in zones.items() if name.startswith("package-")]
    memory = [
        zone
        for zone, name in zones.items()
        if name == "dram" and folder / zone.name.rpartition(":")[0] in packages
    ]
    if not packages:
        return [], "no counter: this machine shows none of its processors' (RAPL)"
    try:
        return [_zone(zone, zones) for zone in (*packages, *memory)], ""
    except PermissionError:
        return [], (
            "no permission: the counters of the processors (RAPL) are for root alone; "
            f"`sudo chmod a+r {folder}/*/energy_uj` opens them until the next start"
        )
    except (OSError, ValueError) as wrong:
        return [], f"not readable: the counters of the processors (RAPL): {wrong}"


def _zone(zone: Path, names: dict[Path, str]) -> Counter:
    path = zone / "energy_uj"
    name = names[zone] or zone.name
    if name == "dram":
        name = f"dram of {names[zone.parent / zone.name.rpartition(':')[0]]}"

    def read() -> float:
        return int(path.read_bytes()) / 1e6

    read()
    most = (zone / "max_energy_range_uj").read_text(encoding="ascii").strip()
    return Counter(name, f"rapl {zone.name}", read, int(most) / 1e6)


def _nvml(first: int, count: int, nvml: Any) -> tuple[list[Counter], str]:
    """The GPUs that a process computes on, by their numbers among those that it may use."""
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return [], "not installed: the GPU's counter needs pip install 'convdyno[gpu]'"
    try:
        nvml.nvmlInit()
        present = range(nvml.nvmlDeviceGetCount())
        cards = [nvml.nvmlDeviceGetHandleByIndex(number) for number in present]
        kinds = {nvml.nvmlDeviceGetName(card) for card in cards}
        if len(kinds) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            return [], (
                "not known: there are GPUs of several kinds, and which is which is certain only "
                "with CUDA_DEVICE_ORDER=PCI_BUS_ID"
            )
        visible = visible_gpus() or list(map(str, present))
        return [_card(name, cards, nvml) for name in visible[first : first + count]], ""
    except (nvml.NVMLError, IndexError) as wrong:
        return [], f"not readable: the GPU's counter (NVML): {wrong}"


def _card(name: str, cards: Sequence[Any], nvml: Any) -> Counter:
    card = cards[int(name)] if name.isdigit() else nvml.nvmlDeviceGetHandleByUUID(name)

    def read() -> float:
        return float(nvml.nvmlDeviceGetTotalEnergyConsumption(card)) / 1e3

    read()
    return Counter(f"gpu {name}", f"nvml {nvml.nvmlDeviceGetUUID(card)}", read)
