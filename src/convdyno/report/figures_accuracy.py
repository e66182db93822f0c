"""Time to accuracy: what runs of training reached, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from convdyno.report.cells import TrainingRun
from convdyno.report.charts import GREY, Figure, Values, coloured, layered, mark, quantity, tooltip
from convdyno.report.format import noun, percent, said, varying


def accuracy_figures(trainings: Sequence[TrainingRun]) -> Iterator[Figure]:
    """Test accuracy over the time of training, one chart a network and data set."""
    able = [run for run in trainings if run.looks]

    def about(run: TrainingRun) -> tuple[str, str]:
        trial = run.record.training.trial
        return trial.network, Path(trial.data).name or trial.data

    for (network, data), group in groupby(sorted(able, key=about), about):
        runs = list(group)
        names = _run_labels(runs)
        longest = max(seconds for run in runs for seconds, _ in run.looks)
        unit, size = ("minutes", 60.0) if longest > 300 else ("seconds", 1.0)
        values: Values = [
            {"time": round(seconds / size, 4), "top1": top1, "name": name, "run": str(run.folder)}
            for run, name in zip(runs, names, strict=True)
            for seconds, top1 in run.looks
        ]
        targets = {run.record.training.until for run in runs} - {None}
        series = list(dict.fromkeys(names))
        encoding = {
            "x": quantity("time", f"Time of training ({unit})", scale={
                "domain": [0, 1.03 * longest / size], "nice": False}),
            "y": quantity("top1", "Top-1 on the test images", scale={"zero": False, "padding": 8},
                axis={"format": "~%"}),
            "color": coloured("name", series), "detail": {"field": "run", "type": "nominal"},
        }  # fmt: skip
        spec = layered(
            [
                *({"data": {"values": [{"top1": target}]}} | mark("rule", {"y": quantity("top1")},
                    color=GREY, strokeDash=[5, 4]) for target in sorted(targets, key=str)),
                mark("line", encoding, strokeWidth=2),
                mark("point", encoding | {"tooltip": tooltip(run="run", top1="top1")},
                    filled=True, size=40, opacity=1),
            ],
            height=280,
        )  # fmt: skip
        aims = ", ".join(percent(target) for target in sorted(targets, key=str) if target)
        subtitle = f"{data}; {noun(len(runs), 'run')}"
        yield Figure("accuracy", f"{network}_accuracy", network,
            f"{subtitle}; the dashed line is the target of {aims}" if aims else subtitle,
            spec, values)  # fmt: skip


def _run_labels(runs: Sequence[TrainingRun]) -> list[str]:
    """What tells runs of one network apart, but for their seed."""
    trials = [run.record.training.trial for run in runs]
    names = [name for name in varying(trials, ("engine",)) if name not in ("seed", "optimiser")]
    return [", ".join(said(trial, name) for name in names) for trial in trials]
