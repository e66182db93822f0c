"""How long reports, comparisons, CSV and lists of many records take, and how much memory they need.

    python benchmarks/report.py [RECORDS]

Ten thousand made-up records, as `bench` writes them: three rounds of ten blocks and their warm-up,
of twenty networks on six engines in several runs on two machines, some of them on several devices
or rungs of the input, some failed. Wall time is what a user waits; CPU time says what it would be
on a machine that does nothing else.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from convdyno.machine.facts import machine
from convdyno.store.certificate import Certificate, EngineProof
from convdyno.store.folder import Store
from convdyno.store.record import Block, NetworkFacts, Peak, Process, Record, new_record
from convdyno.trial.spec import Trial, make_trial

NETWORKS = [f"network{number}" for number in range(20)]
ENGINES = ("torch", "jax", "tensorflow", "keras/torch", "keras/jax", "keras/tensorflow")
BATCHES = (8, 16, 32, 64)
ROUNDS, BLOCKS, WARM_UP = 3, 10, 4
LIMITS = {"seconds": 10.0, "megabytes": 500.0, "page": 5.0, "list": 1.0}


def trials() -> Iterator[tuple[str, Trial]]:
    """Runs without end: of engines, precisions and batches; of devices; of rungs."""
    for number in itertools.count():
        network, mode = NETWORKS[number % 20], ("train", "infer")[number // 20 % 2]
        run = f"run{number}"
        for engine, precision, batch in itertools.product(ENGINES, ("fp32", "bf16"), BATCHES):
            settings = {"engine": engine, "mode": mode, "precision": precision, "batch": batch}
            yield run, make_trial(network=network, threads=number // 40 % 4 + 1, **settings)
        for devices, exchange in (
            (1, "default"),
            (2, "default"),
            (2, "independent"),
            (4, "default"),
        ):
            settings = {"engine": "torch", "batch": 32, "devices": devices, "exchange": exchange}
            yield run, make_trial(network=network, cores=1, **settings)
        for rung in ("device", "host", "decoded", "bytes", "source"):
            settings = {"engine": "torch", "batch": 32, "data": "photos", "rung": rung}
            yield run, make_trial(network=network, **settings)


def records(count: int) -> Iterator[Record]:
    """Made-up records; every fiftieth has failed."""
    here = machine()
    machines = [here, here | {"host": "another"}]
    rng = np.random.default_rng(0)
    for number, (run, trial) in enumerate(itertools.islice(trials(), count)):
        base = 20.0 * (1 + ENGINES.index(trial.engine)) * trial.devices**0.9
        done = number % 50 != 49
        record = new_record(
            trial,
            network=facts(trial.network),
            machine=machines[int(run[3:]) % 2],
            run=run,
            versions={trial.engine.partition("/")[0]: "2.0"},
            settings={"device": "cpu", "device_name": "CPU", "threads": 2, "layout": "nhwc"},
            command=f"convdyno bench {trial.network} --engine all --precision fp32,bf16",
            processes=tuple(process(rng, n, base, trial) for n in range(ROUNDS)) if done else (),
        )
        stamp = f"2026{1 + number // 900 % 12:02d}{1 + number // 30 % 28:02d}T{number % 86400:06d}"
        yield record.but(
            id=f"{stamp}-{number:05d}",
            status="ok" if done else "oom",
            reason=None if done else f"out of memory with {trial.batch} images",
        )


def process(rng: Any, number: int, rate: float, trial: Trial) -> Process:
    seconds = trial.global_batch / rate * np.exp(0.01 * rng.standard_normal(BLOCKS + WARM_UP))
    blocks = [
        Block(seconds=float(one), steps=1, turn=turn, foreign_share=float(rng.random() * 0.02))
        for turn, one in enumerate(seconds)
    ]
    peaks = (Peak(kind="matmul", per_second=1e12), Peak(kind="copy", per_second=1e10))
    return Process(
        round=number, steady=True, first_step_seconds=1.0, import_seconds=1.0, build_seconds=1.0,
        warmup=tuple(blocks[:WARM_UP]), blocks=tuple(blocks[WARM_UP:]), peak_memory_bytes=10**9,
        peaks=peaks if number == 0 else (),
    )  # fmt: skip


def facts(network: str) -> NetworkFacts:
    return NetworkFacts(
        digest=network, parameters=10**7, macs=10**9, image=(224, 224, 3), classes=1000, nodes=100
    )


def fill(folder: Path, count: int) -> None:
    """Write the records, without waiting for the disk after each as a store does."""
    folder.mkdir()
    for record in records(count):
        (folder / f"{record.id}.json").write_text(record.model_dump_json(indent=1))
    proofs = tuple(EngineProof(engine=engine, passed=True) for engine in ENGINES)
    for network in NETWORKS:
        Store(folder).write_certificate(
            Certificate(
                network=network, form="", digest="", parameters=1, condition=1.0, engines=proofs,
                created="",
            )
        )  # fmt: skip


def run(*words: str) -> tuple[float, float, float]:
    """Wall and CPU seconds and megabytes of one command."""
    start = time.perf_counter()
    null = os.open(os.devnull, os.O_WRONLY)
    command = [sys.executable, "-m", "convdyno", *words]
    actions = [(os.POSIX_SPAWN_DUP2, null, 1)]
    pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    assert status == 0, f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}"
    wall = time.perf_counter() - start
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as place:
        folder, page = Path(place) / "results", Path(place) / "page.html"
        fill(folder, count)
        size = sum(path.stat().st_size for path in folder.glob("*.json")) / 1e6
        print(f"{count} records, {size:.0f} MB\n")
        print(f"{'command':<34}{'wall s':>8}{'CPU s':>8}{'MB':>8}")
        store = str(folder)
        for words in (
            ("report", store, "--html", str(page)),
            ("report", store, "--json"),
            ("compare", store, "--by", "engine"),
            ("compare", store, "--by", "precision", "--json"),
            ("results", "csv", "--out", store),
            ("results", "list", "--out", store),
            ("results", "list", "--out", store),
        ):
            wall, cpu, memory = run(*words)
            shown = " ".join(word for word in words if not word.startswith("/"))
            print(f"{shown:<34}{wall:8.2f}{cpu:8.2f}{memory:8.0f}")
        print(f"\nthe page has {page.stat().st_size / 1e6:.2f} MB")
        limits = ", ".join(f"{name} {limit:g}" for name, limit in LIMITS.items())
        print(f"limits for 10,000 records: {limits}")


if __name__ == "__main__":
    main()
