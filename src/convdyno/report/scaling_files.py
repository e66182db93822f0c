"""A scaling curve as files: the older tool's table and its ideal, and the picture it promised."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from convdyno.files import write_whole
from convdyno.report.scaling import Curve

HEADER = "gpus,images_per_sec"


def write_curves(curves: Sequence[Curve], folder: Path) -> list[Path]:
    """Write the files of every curve; the paths written.

    For each way of exchange NAME.csv has a line for each number of devices with the images per
    second of all together, and NAME.csv.ideal the same number of devices, each as fast as one
    alone. NAME.svg shows all of them.
    """
    if not curves:
        return []
    from convdyno.report.charts import svg
    from convdyno.report.figures_scaling import scaling_figure

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for curve in curves:
        name = _name(curve)
        for kind, points in curve.lines.items():
            table = folder / (f"{name}.csv" if kind == "default" else f"{name}-{kind}.csv")
            counts = [point.trial.devices for point in points]
            rates = [point.rate for point in points]
            written.append(write_whole(table, _table(zip(counts, rates, strict=True))))
            if (one := curve.baseline) is not None:
                ideal = _table((count, count * one.rate) for count in counts)
                written.append(write_whole(table.with_name(f"{table.name}.ideal"), ideal))
        written.append(write_whole(folder / f"{name}.svg", svg(scaling_figure(curve))))
    return written


def _name(curve: Curve) -> str:
    """Readable, and the same for the same work."""
    words = re.sub(r"[^A-Za-z0-9._]+", "-", f"{curve.work.network}-{curve.work.engine}").strip("-")
    return f"scaling-{words[:60]}-{curve.work.digest[:8]}"


def _table(lines: Iterable[tuple[int, float]]) -> str:
    return "".join([f"{HEADER}\n", *(f"{count},{rate!r}\n" for count, rate in lines)])
