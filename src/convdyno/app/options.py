"""The options of every use case as Python has them; tools/options.py makes this file.

None, or leaving an option out, is its default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict


class MeasuredOptions(TypedDict, total=False):
    """What is measured, and how."""

    engine: str | Sequence[str] | None
    mode: str | Sequence[str] | None
    batch: int | str | Sequence[int | str] | None
    precision: str | Sequence[str] | None
    layout: str | Sequence[str] | None
    compile: bool | str | Sequence[bool | str] | None
    kernels: str | Sequence[str] | None
    feed: str | Sequence[str] | None
    threads: int | str | Sequence[int | str] | None
    device: str | Sequence[str] | None
    image_size: int | str | tuple[int, int] | None
    classes: int | str | Sequence[int | str] | None
    width: float | str | Sequence[float | str] | None
    data: str | Path | Sequence[str | Path] | None
    loader: str | Sequence[str] | None
    decoder: str | Sequence[str] | None
    crop: str | Sequence[str] | None
    view: str | Sequence[str] | None
    resize: str | Sequence[str] | None
    colour: str | Sequence[str] | None
    input_threads: int | str | Sequence[int | str] | None
    prefetch: int | str | Sequence[int | str] | None
    on_bad: str | Sequence[str] | None
    optimiser: str | Sequence[str] | None
    rate: float | str | Sequence[float | str] | None
    loss_scale: float | str | Sequence[float | str] | None
    auxiliary: bool | None
    latency: bool | None
    devices: int | str | Sequence[int | str] | None
    scaling: str | Sequence[str] | None
    exchange: str | Sequence[str] | None
    bucket_mb: float | str | Sequence[float | str] | None
    compress: str | Sequence[str] | None
    accumulate: int | str | Sequence[int | str] | None
    processes: str | Sequence[str] | None
    cores: int | str | Sequence[int | str] | None
    seed: int | str | Sequence[int | str] | None
    watchdog: float | str | None
    rank_timeout: float | str | None
    within: float | str | None
    budget: float | str | None
    rounds: int | str | None
    out: str | Path | None


class BenchOptions(MeasuredOptions, total=False):
    """Measure how fast networks train or infer."""

    ladder: bool | None
    stage_from: str | Sequence[str] | None
    nodes: str | Path | None
    per_node: int | str | None
    max_devices: int | str | None
    remote_dir: str | None
    python: str | None
    ssh_config: str | Path | None
    preset: str | None
    labels: Mapping[str, str] | None
    watch: bool | None


class GateOptions(MeasuredOptions, total=False):
    """Hold a candidate against a base."""

    base: str | Path | None
    base_python: str | None
    base_command: str | None
    base_folder: str | Path | None
    base_set: str | None
    loss_steps: int | str | None
    loss_within: str | None
    ignore: str | None
    floor: bool | None


class TuneOptions(TypedDict, total=False):
    """Search the fastest settings of one network and engine."""

    engine: str | None
    mode: str | None
    batch: int | str | None
    precision: str | None
    layout: str | None
    compile: bool | str | None
    kernels: str | None
    feed: str | None
    threads: int | str | None
    device: str | None
    image_size: int | str | tuple[int, int] | None
    classes: int | str | None
    width: float | str | None
    data: str | Path | None
    loader: str | None
    decoder: str | None
    crop: str | None
    view: str | None
    resize: str | None
    colour: str | None
    input_threads: int | str | None
    prefetch: int | str | None
    on_bad: str | None
    optimiser: str | None
    rate: float | str | None
    loss_scale: float | str | None
    auxiliary: bool | None
    devices: int | str | None
    scaling: str | None
    exchange: str | None
    bucket_mb: float | str | None
    compress: str | None
    accumulate: int | str | None
    processes: str | None
    cores: int | str | None
    seed: int | str | None
    watchdog: float | str | None
    rank_timeout: float | str | None
    within: float | str | None
    budget: float | str | None
    rounds: int | str | None
    out: str | Path | None
    name: str | None
    own: bool | None


class SweepOptions(TypedDict, total=False):
    """Measure every combination of a file's values."""

    retry: str | None
    overrides: str | Sequence[str] | None
    labels: Mapping[str, str] | None
    out: str | Path | None


class TrainOptions(TypedDict, total=False):
    """Train a network on real data."""

    engine: str | None
    batch: int | str | None
    precision: str | None
    layout: str | None
    compile: bool | str | None
    kernels: str | None
    threads: int | str | None
    device: str | None
    image_size: int | str | tuple[int, int] | None
    classes: int | str | None
    width: float | str | None
    decoder: str | None
    crop: str | None
    view: str | None
    resize: str | None
    colour: str | None
    input_threads: int | str | None
    prefetch: int | str | None
    on_bad: str | None
    optimiser: str | None
    rate: float | str | None
    loss_scale: float | str | None
    auxiliary: bool | None
    devices: int | str | None
    exchange: str | None
    bucket_mb: float | str | None
    compress: str | None
    accumulate: int | str | None
    cores: int | str | None
    seed: int | str | None
    watchdog: float | str | None
    rank_timeout: float | str | None
    data: str | None
    recipe: str | None
    log_dir: str | Path | None
    epochs: float | str | None
    momentum: float | str | None
    nesterov: bool | None
    weight_decay: float | str | None
    decay_on: str | None
    label_smoothing: float | str | None
    ema: float | str | None
    clip_norm: float | str | None
    larc_eta: float | str | None
    larc_mode: str | None
    schedule: str | None
    warmup: float | str | None
    warmup_from: float | str | None
    seeds: int | str | None
    until: str | None
    eval_every: float | str | None
    display_every: int | str | None
    save_interval: float | str | None
    summary_interval: float | str | None
    keep: int | str | None
    resume: bool | None
    labels: Mapping[str, str] | None


class EvaluateOptions(TypedDict, total=False):
    """Evaluate a checkpoint over every test image."""

    engine: str | None
    batch: int | str | None
    precision: str | None
    device: str | None
    data: str | Path | None
    view: str | None
    devices: int | str | None
    cores: int | str | None
    watchdog: float | str | None
    rank_timeout: float | str | None
    network: str | None
    raw: bool | None
    full: bool | None


class CertifyOptions(TypedDict, total=False):
    """Prove that engines compute the same network."""

    engine: str | None
    optimiser: str | None
    recipe: str | None
    precision: str | None
    kernels: str | None
    layout: str | None
    compile: str | None
    accumulate: int | str | None
    devices: str | None
    auxiliary: bool | None
    seed: int | str | None
    coverage: bool | None
    out: str | Path | None


class CompareOptions(TypedDict, total=False):
    """Compare stored cells that are alike in all but one thing."""

    by: str | None
    where: str | Sequence[str] | None
    against: str | None


class ReportOptions(TypedDict, total=False):
    """Show what was measured, in files."""

    html: str | Path | None
    svg: str | Path | None
    png: str | Path | None
    csv: str | Path | None
    markdown: str | Path | None
    bencher: str | Path | None
    where: str | Sequence[str] | None
    title: str | None
