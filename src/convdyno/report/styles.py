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
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from convdyno import __version__
from convdyno.report.rows import Row
from convdyno.results.record import Block, Process
from convdyno.stats.rounds import Floats

RULE = "-" * 64
NORMAL_FROM_MAD = 1.4826
IMAGENET_IMAGES = 1281167
"""What tf_cnn_benchmarks counts as an epoch of synthetic data."""
FRAMEWORKS = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX", "keras": "Keras"}


def nvcnn(row: Row) -> Iterator[str]:
    """The header, the step table and the last line of nvcnn.py and nvcnn_hvd.py."""
    trial = row.trial
    yield _version(row)
    yield f"This script: convdyno v{__version__}"
    yield "Cmd line args:"
    yield from (f"  {word}" for word in row.record.command.split()[1:])
    yield f"Num ranks:   {trial.devices}"
    yield f"Num images:  {_images(row) or 'Synthetic'}"
    yield f"Model:       {trial.network}"
    yield f"Batch size:  {trial.global_batch} global"
    yield f"             {trial.batch} per device"
    yield f"Devices:     {_devices(row)}"
    yield f"Data format: {_layout(row)}"
    yield f"Data type:   {trial.precision}"
    yield "Training" if trial.mode == "train" else "Inference"
    yield "  Step Epoch Img/sec   Loss   LR"
    step = 0
    for process in row.record.measured:
        step += sum(block.steps for block in process.blocks)
        epoch = step * trial.global_batch // (_images(row) or step * trial.global_batch + 1)
        last = _speeds(process.clean, trial.global_batch)[-1]
        rate = trial.optimiser.rate if trial.mode == "train" else 0.0
        yield f"{step:6d} {epoch + 1:5d} {last:7.1f} {_loss(process):7.3f} {rate:7.5f}"
    speeds = _all_speeds(row)
    if not len(speeds):
        yield f"No results, {_why(row)}"
        return
    error = speeds.std(ddof=1) / math.sqrt(len(speeds)) if len(speeds) > 2 else math.nan
    yield RULE
    yield f"Images/sec: {speeds.mean():.1f} +/- {error:.1f} (jitter = {_jitter(speeds):.1f})"
    yield RULE


def tf_cnn(row: Row) -> Iterator[str]:
    """The header, the step table and the total of tf_cnn_benchmarks."""
    trial, measured = row.trial, row.record.measured
    steps = sum(block.steps for process in measured for block in process.blocks)
    images = _images(row)
    real = images is not None
    yield _version(row)
    yield f"Model:       {trial.network}"
    yield f"Dataset:     {trial.data if real else 'imagenet (synthetic)'}"
    yield f"Mode:        {'training' if trial.mode == 'train' else 'forward only'}"
    yield "SingleSess:  False"
    yield f"Batch size:  {trial.global_batch} global"
    yield f"             {trial.batch} per device"
    yield f"Num batches: {steps}"
    yield f"Num epochs:  {steps * trial.global_batch / (images or IMAGENET_IMAGES):.2f}"
    yield f"Devices:     {_devices(row)}"
    yield "NUMA bind:   False"
    yield f"Data format: {_layout(row)}"
    yield f"Optimizer:   {_optimiser(row)}"
    yield f"Variables:   {_variables(row)}"
    yield "=========="
    yield "Running warm up"
    yield "Done warm up"
    yield "Step\tImg/sec\ttotal_loss"
    done: list[Block] = []
    step = 0
    for process in measured:
        step += sum(block.steps for block in process.blocks)
        done += process.clean
        speeds, seconds = _speeds(done, trial.global_batch), _step_seconds(done)
        error = speeds.std() / math.sqrt(len(speeds))
        yield (
            f"{step}\timages/sec: {trial.global_batch / seconds:.1f} +/- {error:.1f} "
            f"(jitter = {_jitter(speeds):.1f})\t{_loss(process):.3f}"
        )
    yield RULE
    yield f"total images/sec: {row.images_per_second or 0.0:.2f}"
    yield RULE
    if not measured:
        yield f"No results, {_why(row)}"


STYLES: Mapping[str, Callable[[Row], Iterator[str]]] = {"nvcnn": nvcnn, "tf-cnn": tf_cnn}


def _version(row: Row) -> str:
    """The first line, which names TensorFlow only where it was TensorFlow that ran."""
    engine = row.trial.engine.partition("/")[0]
    name = FRAMEWORKS.get(engine, engine)
    return f"{name + ':':<13}{row.record.versions.get(engine, '')}".rstrip()


def _images(row: Row) -> int | None:
    """The images of an epoch; None for synthetic data."""
    found = (row.record.input or {}).get("images")
    return found if isinstance(found, int) and found > 0 else None


def _devices(row: Row) -> str:
    kind = "cpu" if (row.record.settings or {}).get("device", "cpu") == "cpu" else "gpu"
    return str([f"/{kind}:{number}" for number in range(row.trial.devices)])


def _layout(row: Row) -> str:
    return str((row.record.settings or {}).get("layout", row.trial.layout)).upper()


def _optimiser(row: Row) -> str:
    rule = row.trial.optimiser
    return "momentum" if rule.kind == "sgd" and rule.momentum else rule.kind


def _variables(row: Row) -> str:
    if row.trial.devices == 1:
        return "parameter_server"
    return {"default": "replicated"}.get(row.trial.exchange, row.trial.exchange)


def _loss(process: Process) -> float:
    return math.nan if process.last_loss is None else process.last_loss


def _why(row: Row) -> str:
    return row.record.reason or "did not get past burn-in phase"


def _all_speeds(row: Row) -> Floats:
    blocks = [block for process in row.record.measured for block in process.clean]
    return _speeds(blocks, row.trial.global_batch)


def _speeds(blocks: list[Block] | tuple[Block, ...], images: int) -> Floats:
    """Images per second of each step where steps were timed, and of each block where not."""
    times = [seconds for block in blocks for seconds in block.step_seconds or ()]
    if times:
        return images / np.asarray(times)
    return np.array([images * block.steps / block.seconds for block in blocks])


def _step_seconds(blocks: list[Block]) -> float:
    return sum(block.seconds for block in blocks) / sum(block.steps for block in blocks)


def _jitter(speeds: Floats) -> float:
    return NORMAL_FROM_MAD * float(np.median(np.abs(speeds - np.median(speeds))))
