"""A benchmark told as older tools told theirs, line for line, for whatever reads their logs.

Each style keeps its tool's own formulas, which differ from each other and from the headline: with
step speeds s, times t and n of them,

| style  | images/sec           | +/-                          | jitter                        |
|--------|----------------------|------------------------------|-------------------------------|
| nvcnn  | mean of s            | sd of s (ddof 1) / sqrt(n)   | 1.4826 median of abs(s - med) |
| tf-cnn | images / mean of t   | sd of s (ddof 0) / sqrt(n)   | the same                      |

Where steps were not timed one by one, s is the speed of each block. A line of the step table stands
for one process: the loss is known where it ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from convdyno import __version__
from convdyno.report.cell import Cell
from convdyno.stats.series import Floats, median_deviation
from convdyno.store.record import Block, Process, Record

RULE = "-" * 64
IMAGENET_IMAGES = 1281167
"""What tf_cnn_benchmarks counts as an epoch of synthetic data."""
FRAMEWORKS = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX", "keras": "Keras"}


def nvcnn(cell: Cell, record: Record) -> Iterator[str]:
    """The header, the step table and the last line of nvcnn.py and nvcnn_hvd.py."""
    trial, measured, images = cell.trial, record.measured, _images(record)
    yield _version(cell)
    yield f"This script: convdyno v{__version__}"
    yield "Cmd line args:"
    yield from (f"  {word}" for word in cell.command.split()[1:])
    yield f"Num ranks:   {trial.devices}"
    yield f"Num images:  {images or 'Synthetic'}"
    yield f"Model:       {trial.network}"
    yield f"Batch size:  {trial.global_batch} global"
    yield f"             {trial.batch} per device"
    yield f"Devices:     {_devices(cell)}"
    yield f"Data format: {str(cell.used('layout')).upper()}"
    yield f"Data type:   {trial.precision}"
    yield "Training" if trial.mode == "train" else "Inference"
    yield "  Step Epoch Img/sec   Loss   LR"
    step = 0
    for process in measured:
        step += sum(block.steps for block in process.blocks)
        epoch = step * trial.global_batch // images if images else 0
        last = _speeds(process.clean, trial.global_batch)[-1]
        rate = trial.optimiser.rate if trial.mode == "train" else 0.0
        yield f"{step:6d} {epoch + 1:5d} {last:7.1f} {_loss(process):7.3f} {rate:7.5f}"
    blocks = [block for process in measured for block in process.clean]
    speeds = _speeds(blocks, trial.global_batch)
    if not len(speeds):
        yield f"No results, {_why(cell)}"
        return
    error = speeds.std(ddof=1) / math.sqrt(len(speeds)) if len(speeds) > 2 else math.nan
    yield RULE
    yield speed_line(speeds, error)
    yield RULE


def tf_cnn(cell: Cell, record: Record) -> Iterator[str]:
    """The header, the step table and the total of tf_cnn_benchmarks."""
    trial, measured, images = cell.trial, record.measured, _images(record)
    steps = sum(block.steps for process in measured for block in process.blocks)
    rule, exchange = trial.optimiser, {"default": "replicated"}.get(trial.exchange, trial.exchange)
    yield _version(cell)
    yield f"Model:       {trial.network}"
    yield f"Dataset:     {trial.data if images else 'imagenet (synthetic)'}"
    yield f"Mode:        {'training' if trial.mode == 'train' else 'forward only'}"
    yield "SingleSess:  False"
    yield f"Batch size:  {trial.global_batch} global"
    yield f"             {trial.batch} per device"
    yield f"Num batches: {steps}"
    yield f"Num epochs:  {steps * trial.global_batch / (images or IMAGENET_IMAGES):.2f}"
    yield f"Devices:     {_devices(cell)}"
    yield "NUMA bind:   False"
    yield f"Data format: {str(cell.used('layout')).upper()}"
    yield f"Optimizer:   {'momentum' if rule.kind == 'sgd' and rule.momentum else rule.kind}"
    yield f"Variables:   {'parameter_server' if trial.devices == 1 else exchange}"
    yield "=========="
    yield "Running warm up"
    yield "Done warm up"
    yield "Step\tImg/sec\ttotal_loss"
    done: list[Block] = []
    step = 0
    for process in measured:
        step += sum(block.steps for block in process.blocks)
        done += process.clean
        speeds = _speeds(done, trial.global_batch)
        seconds = sum(block.seconds for block in done) / sum(block.steps for block in done)
        error = speeds.std() / math.sqrt(len(speeds))
        yield (
            f"{step}\timages/sec: {trial.global_batch / seconds:.1f} +/- {error:.1f} "
            f"(jitter = {median_deviation(speeds):.1f})\t{_loss(process):.3f}"
        )
    yield RULE
    yield f"total images/sec: {cell.images_per_second or 0.0:.2f}"
    yield RULE
    if not measured:
        yield f"No results, {_why(cell)}"


def speed_line(speeds: Floats, error: float) -> str:
    """The last line of nvcnn."""
    jitter = median_deviation(speeds)
    return f"Images/sec: {speeds.mean():.1f} +/- {error:.1f} (jitter = {jitter:.1f})"


STYLES: Mapping[str, Callable[[Cell, Record], Iterator[str]]] = {"nvcnn": nvcnn, "tf-cnn": tf_cnn}


def _version(cell: Cell) -> str:
    """The first line, which names TensorFlow only where it was TensorFlow that ran."""
    engine = cell.trial.engine.partition("/")[0]
    name = FRAMEWORKS.get(engine, engine)
    return f"{name + ':':<13}{cell.versions.get(engine, '')}".rstrip()


def _images(record: Record) -> int | None:
    """The images of an epoch; None for synthetic data."""
    found = (record.input or {}).get("count")
    return found if isinstance(found, int) and found > 0 else None


def _devices(cell: Cell) -> str:
    kind = "cpu" if cell.on_cpu else "gpu"
    return str([f"/{kind}:{number}" for number in range(cell.trial.devices)])


def _loss(process: Process) -> float:
    return math.nan if process.last_loss is None else process.last_loss


def _why(cell: Cell) -> str:
    return cell.reason or "did not get past burn-in phase"


def _speeds(blocks: Sequence[Block], images: int) -> Floats:
    """Images per second of each step where steps were timed, and of each block where not."""
    times = [seconds for block in blocks for seconds in block.step_seconds or ()]
    if times:
        return images / np.asarray(times)
    return np.array([images * block.steps / block.seconds for block in blocks])
