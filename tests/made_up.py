"""Records of cells whose speed is known, in runs, on machines, in folders."""

from pathlib import Path
from typing import Any

import numpy as np

from convdyno.store.certificate import Certificate, EngineProof
from convdyno.store.folder import Store
from convdyno.store.record import Block, NetworkFacts, Peak, Process, Record, new_record
from convdyno.trial.spec import make_trial

FACTS = NetworkFacts(
    digest="d", parameters=25_600_000, macs=3_860_000_000, image=(224, 224, 3), classes=1000,
    nodes=100,
)  # fmt: skip
DRIFT = (1.0, 1.05, 0.96, 1.02)
"""How slow the machine is in each round, for all cells alike."""


def made(
    rate: float = 100.0,
    run: str = "r1",
    host: str = "one",
    rounds: int = 4,
    noise: float = 0.004,
    created: str = "2026-11-16T04:00:00.000+00:00",
    **more: Any,
) -> Record:
    """A measured cell; what is no field of a record is the trial's, and so is its network."""
    fields = Record.model_fields.keys() - {"network"}
    ours = {name: more.pop(name) for name in list(more) if name in fields}
    trial = make_trial(**{"network": "resnet50", "engine": "torch", "batch": 32} | more)
    rng = np.random.default_rng([int(trial.digest[:8], 16), *map(ord, run + host)])
    processes = tuple(
        Process(
            round=number,
            steady=True,
            host=host,
            import_seconds=1.0,
            build_seconds=0.5,
            first_step_seconds=3.0,
            last_loss=6.9,
            blocks=tuple(
                Block(seconds=float(seconds), steps=4, turn=turn)
                for turn, seconds in enumerate(
                    _seconds(rng, rate, trial.global_batch, number, noise)
                )
            ),
            peaks=_peaks(trial.precision) if number == 0 else (),
            peak_memory_bytes=3_000_000_000,
        )
        for number in range(rounds)
    )
    record = new_record(
        trial, network=FACTS, processes=processes, run=run, machine=a_machine(host),
        versions={trial.engine.partition("/")[0]: "1.2.3"},
        settings={"device": "cpu", "device_name": "AMD EPYC", "threads": 2, "layout": "nhwc"},
        command="convdyno bench resnet50 --engine torch,jax",
    )  # fmt: skip
    name = record.id.partition("-")[2]
    stamp = created[:19].replace("-", "").replace(":", "")
    return record.but(**{"status": "ok", "created": created, "id": f"{stamp}-{name}"} | ours)


def failed(reason: str = "out of memory", **more: Any) -> Record:
    """A cell of which nothing was measured."""
    return made(rounds=0, reason=reason, **{"status": "oom"} | more)


def a_machine(host: str = "one", **more: Any) -> dict[str, Any]:
    return {
        "host": host, "system": "Linux 6.1", "python": "3.11.7", "cpu": "AMD EPYC",
        "architecture": "x86_64", "cores_usable": 2, "cores_logical": 2, "cores_physical": 1,
        "cpu_flags": ["avx2", "avx512f"], "memory_bytes": 24 << 30, "hypervisor": True,
        "governor": None, "huge_pages": "madvise", "gpus": [], "environment": {},
    } | more  # fmt: skip


def store_of(folder: Path, *records: Record, engines: tuple[str, ...] = ("torch", "jax")) -> Path:
    """A folder with these records, and a certificate for resnet50 of these engines."""
    store = Store(folder)
    for record in records:
        store.write(record)
    proofs = tuple(EngineProof(engine=name, passed=True) for name in engines)
    store.write_certificate(
        Certificate(
            network="resnet50", form="small", digest="s", parameters=1, condition=1.0,
            engines=proofs, created="",
        )
    )  # fmt: skip
    return folder


def _seconds(rng: Any, rate: float, images: int, number: int, noise: float) -> Any:
    own = noise * rng.standard_normal()
    return (
        4
        * images
        / rate
        * DRIFT[number % len(DRIFT)]
        * np.exp(own + noise * rng.standard_normal(8))
    )


def _peaks(precision: str) -> tuple[Peak, ...]:
    flops = 4.6e12 if precision == "bf16" else 2.3e12
    return (
        Peak(kind="matmul", per_second=flops),
        Peak(kind="conv", per_second=0.9 * flops),
        Peak(kind="copy", per_second=4e10),
    )
