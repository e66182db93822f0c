"""Training as one sees it: a line that is drawn anew, a table in a log, and what came out."""

from __future__ import annotations

import math
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from convdyno.report.bench_json import versioned
from convdyno.report.format import accuracy, duration, noun, pairs, quantity, rate
from convdyno.report.legacy import RULE, speed_line
from convdyno.stats import t_distribution
from convdyno.terminal import Visible, erase_line
from convdyno.trial.training import Training


class Watcher:
    """Shows the events of one run as they come."""

    def __init__(
        self, folder: Path, *, quiet: bool = False, table: bool = False, out: TextIO | None = None
    ) -> None:
        self._folder, self._quiet = folder, quiet
        self._out = Visible(out or sys.stderr)
        self._live = self._out.isatty() and not table
        self._steps, self._top1 = 1, ""
        self._rates: list[float] = []

    def start(self, training: Training) -> None:
        """What is about to be trained."""
        trial, rule = training.trial, training.trial.optimiser
        self._training = training
        batch = f"batch {trial.batch}"
        if trial.devices > 1:
            batch += f" on each of {trial.devices} devices ({trial.global_batch} together)"
        self.say(
            f"training {trial.network} on {trial.data} with {trial.engine}, {trial.precision}, "
            f"{batch}, {training.epochs:g} epochs, recipe {training.recipe}: "
            f"{rule.kind}, rate {rule.rate:g} ({training.schedule.kind}), seed {trial.seed}"
        )

    def see(self, event: dict[str, Any]) -> None:
        """One line of the worker's."""
        match event["event"]:
            case "begun":
                self._begun(event)
            case "step":
                self._step(event)
            case "evaluated":
                self._top1 = accuracy(event["top1"])
                top1 = accuracy(event["top1"], *event["top1_interval"])
                self.say(
                    f"epoch {event['epoch']:.4g}: top-1 {top1}, top-5 {accuracy(event['top5'])}, "
                    f"loss {event['loss']:.4f} on {event['images']} test images"
                )
            case "warning":
                self.warn(event["text"])
            case "trained":
                self._trained(event)

    def warn(self, sentence: str) -> None:
        """A sentence that is worth knowing even where nothing else is said."""
        self.end()
        print(f"mind: {sentence}", file=self._out, flush=True)

    def say(self, sentence: str) -> None:
        """A sentence that stays."""
        self.end()
        if not self._quiet:
            print(sentence, file=self._out, flush=True)

    def end(self) -> None:
        """Take the line away."""
        if self._live and not self._quiet:
            erase_line(self._out)

    def _begun(self, event: dict[str, Any]) -> None:
        self._steps = event["steps"]
        versions = pairs(event["versions"], sign=" ")
        self.say(
            f"{event['images']} training and {event['test_images']} test images, "
            f"{event['classes']} classes; {quantity(event['parameters'])} parameters; {versions}"
        )
        if event["step"]:
            before, now = event["epochs_before"], self._training.epochs
            other = f", to {now:g} epochs instead of {before:g}" if before != now else ""
            place = f"step {event['step']} of {event['steps']}"
            self.say(f"going on from {place} in {self._folder}{other}")
        for warning in event["warnings"]:
            self.warn(warning)
        if not self._live:
            self.say("  Step Epoch Img/sec    Loss      LR")

    def _step(self, event: dict[str, Any]) -> None:
        self._rates.append(event["images_per_second"])
        if self._quiet:
            return
        if not self._live:
            self.say(
                f"{event['step']:6d} {int(event['epoch']):5d} {event['images_per_second']:7.1f} "
                f"{event['loss']:7.3f} {event['rate']:7.5f}"
            )
            return
        done = event["step"]
        images = (self._steps - done) * self._training.trial.global_batch
        left = images / event["images_per_second"]
        epochs = self._training.epochs - event["epoch"]
        this = left * min(1.0, (1 - event["epoch"] % 1) / epochs) if epochs > 0 else 0.0
        top1 = f", top-1 {self._top1}" if self._top1 else ""
        line = (
            f"epoch {event['epoch']:.2f} of {self._training.epochs:g}, "
            f"{rate(event['images_per_second'])} images/s, loss {event['loss']:.3f}{top1}, "
            f"{duration(left)} left ({duration(this)} of this epoch), rate {event['rate']:.3g}"
        )
        # A longer line would wrap, and what has wrapped cannot be taken away again.
        room = (os.get_terminal_size(self._out.fileno()).columns or 80) - 1
        erase_line(self._out)
        print(line[:room], end="", file=self._out, flush=True)

    def _trained(self, event: dict[str, Any]) -> None:
        where = f"step {event['step']} of {event['steps']}"
        if event["already"]:
            best = f", best top-1 {accuracy(event['best'])}" if event["best"] is not None else ""
            self.say(
                f"nothing is left to do: the run in {self._folder} finished at {where}{best}; "
                "another --log-dir trains anew"
            )
            return
        if not self._live:
            self.say(f"{RULE}\n{self._speed()}\n{RULE}")
        speed = event["images"] / event["seconds"] if event["seconds"] else 0.0
        saved = not event["unsaved"]
        how = "trained" if event["finished"] else "stopped and saved" if saved else "stopped"
        kept = f"; checkpoints in {self._folder}" if saved else ", not saved"
        self.say(
            f"{how} at {where}: {duration(event['seconds'])} of training, "
            f"{rate(speed)} images/s{kept}"
        )
        if event["reached"]:
            self.say(
                f"top-1 of {100 * (self._training.until or 0):g} % reached after "
                f"{event['seconds']:.1f} s, {quantity(event['images'])} images and "
                f"{quantity(event['macs'], 'MAC')} of training"
            )

    def _speed(self) -> str:
        """nvcnn's last line: over the lines of the table but the first, which warms up."""
        rates = np.array(self._rates[1:])
        if len(rates) < 2:
            return "No results: fewer than three lines of the table"
        return speed_line(rates, rates.std(ddof=1) / math.sqrt(len(rates)))


FACTS = (
    "folder", "seed", "status", "reason", "step", "steps", "finished", "already", "reached",
    "seconds", "images", "macs", "evaluation", "best", "versions",
)  # fmt: skip
"""What the document says of each run; null where a run did not get so far."""
NESTED = ("evaluation", "versions")
"""Those that are more than a value."""


def flat_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """One run as plain values, without its evaluation."""
    versions = {f"version.{name}": value for name, value in (run.get("versions") or {}).items()}
    return {name: run.get(name) for name in FACTS if name not in NESTED} | versions


def run_words(run: Mapping[str, Any]) -> str:
    """What came of one run, in a line."""
    where = f"{run['folder']}, seed {run['seed']}: {run['status']}"
    if run["reason"]:
        where += f": {run['reason']}"
    if run.get("step") is not None:
        where += f" at step {run['step']} of {run['steps']}, {duration(run['seconds'])} of training"
    if found := run.get("evaluation"):
        where += f", top-1 {accuracy(found['top1'], *found['top1_interval'])}"
    return where


def document(training: Training, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What came out of one run or of several seeds, for machines."""
    return versioned(
        training=training.model_dump(mode="json"),
        runs=[{name: run.get(name) for name in FACTS} for run in runs],
        to_target=costs(training, runs),
    )


def kept(stopped: dict[str, Any]) -> str:
    """What is left of a run that a signal has ended, and how it goes on."""
    if stopped.get("unsaved"):
        return str(stopped["reason"]).partition("; ")[2]
    saved = "nothing was trained"
    if "step" in stopped:
        saved = f"step {stopped['step']} of {stopped['steps']} is saved"
    return f"{saved} in {stopped['folder']}, and the same command goes on from there"


def costs(training: Training, runs: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """What the target cost in the runs that reached it, each with its interval."""
    reached = [run for run in runs if run.get("reached")]
    if training.until is None or not reached:
        return None
    return {"runs": len(reached)} | {
        name: _mean([float(run[name]) for run in reached]) for name in ("seconds", "images", "macs")
    }


def summary(training: Training, runs: Sequence[dict[str, Any]]) -> list[str]:
    """What came out of several seeds, for people."""
    finished = sum(run["status"] == "finished" for run in runs)
    lines = [f"{noun(len(runs), 'run')}, {finished} finished"]
    tops = [run["evaluation"]["top1"] for run in runs if run.get("evaluation")]
    if tops:
        lines.append("top-1: " + ", ".join(map(accuracy, tops)))
    if training.until is not None:
        target = f"top-1 {100 * training.until:g} %"
        found = costs(training, runs) or {"runs": 0}
        lines.append(f"{found.pop('runs')} of {len(runs)} reached {target}")
        for name, cost in found.items():
            around = cost["interval"]
            shown = f" [{quantity(around[0])}, {quantity(around[1])}]" if around else ""
            lines.append(f"{name} to {target}: {quantity(cost['mean'])}{shown}")
    return lines


def _mean(values: Sequence[float]) -> dict[str, Any]:
    """A mean with its 95 % interval, on the log scale."""
    logs = [math.log(max(value, 1e-12)) for value in values]
    centre = statistics.fmean(logs)
    if len(logs) < 2:
        return {"mean": math.exp(centre), "interval": None}
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    reach = float(t_distribution.quantile(0.975, len(logs) - 1)) * error
    ends = math.exp(centre - reach), math.exp(centre + reach)
    return {"mean": math.exp(centre), "interval": ends}
