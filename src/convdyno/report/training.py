"""Training as one sees it: a line that is drawn anew, a table in a log, and what came out."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from convdyno import __version__
from convdyno.report.words import clock, noun, quantity, rate
from convdyno.stats import student
from convdyno.trial.training import Training

RULE = "-" * 64


class Watcher:
    """Shows the events of one run as they come."""

    def __init__(
        self, folder: Path, *, quiet: bool = False, table: bool = False, out: TextIO | None = None
    ) -> None:
        self._folder, self._quiet, self._out = folder, quiet, out or sys.stderr
        self._live = self._out.isatty() and not table
        self._steps, self._top1 = 1, ""

    def start(self, training: Training) -> None:
        """What is about to be trained."""
        trial, rule = training.trial, training.trial.optimiser
        self._training = training
        self.say(
            f"training {trial.network} on {trial.data} with {trial.engine}, {trial.precision}, "
            f"batch {trial.batch}, {training.epochs:g} epochs, recipe {training.recipe}: "
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
                self._top1 = f"{100 * event['top1']:.2f} %"
                low, high = event["top1_interval"]
                self.say(
                    f"epoch {event['epoch']:.4g}: top-1 {self._top1} "
                    f"[{100 * low:.2f}, {100 * high:.2f}], top-5 {100 * event['top5']:.2f} %, "
                    f"loss {event['loss']:.4f} on {event['images']} test images"
                )
            case "warning":
                self.say(f"mind: {event['text']}")
            case "trained":
                self._trained(event)

    def say(self, sentence: str) -> None:
        """A sentence that stays."""
        self.end()
        if not self._quiet:
            print(sentence, file=self._out, flush=True)

    def end(self) -> None:
        """Take the line away."""
        if self._live and not self._quiet:
            print("\r\x1b[K", end="", file=self._out, flush=True)

    def _begun(self, event: dict[str, Any]) -> None:
        self._steps = event["steps"]
        versions = ", ".join(f"{name} {version}" for name, version in event["versions"].items())
        self.say(
            f"{event['images']} training and {event['test_images']} test images, "
            f"{event['classes']} classes; {quantity(event['parameters'])} parameters; {versions}"
        )
        if event["step"]:
            self.say(f"going on from step {event['step']} of {event['steps']} in {self._folder}")
        for warning in event["warnings"]:
            self.say(f"mind: {warning}")
        if not self._live:
            self.say("  Step Epoch Img/sec    Loss      LR")

    def _step(self, event: dict[str, Any]) -> None:
        if self._quiet:
            return
        if not self._live:
            print(
                f"{event['step']:6d} {int(event['epoch']):5d} {event['images_per_second']:7.1f} "
                f"{event['loss']:7.3f} {event['rate']:7.5f}",
                file=self._out,
                flush=True,
            )
            return
        done = event["step"]
        left = (self._steps - done) * self._training.trial.batch / event["images_per_second"]
        top1 = f", top-1 {self._top1}" if self._top1 else ""
        print(
            f"\r\x1b[Kepoch {event['epoch']:.2f} of {self._training.epochs:g}, "
            f"{rate(event['images_per_second'])} images/s, loss {event['loss']:.3f}, "
            f"rate {event['rate']:.3g}{top1}, {clock(left)} left",
            end="",
            file=self._out,
            flush=True,
        )

    def _trained(self, event: dict[str, Any]) -> None:
        speed = event["images"] / event["seconds"] if event["seconds"] else 0.0
        if not self._live:
            self.say(f"{RULE}\nImages/sec: {speed:.1f}\n{RULE}")
        how = "trained" if event["finished"] else "stopped and saved"
        self.say(
            f"{how} at step {event['step']} of {event['steps']}: {clock(event['seconds'])} of "
            f"training, {rate(speed)} images/s; checkpoints in {self._folder}"
        )
        if event["reached"]:
            self.say(
                f"top-1 of {100 * (self._training.until or 0):g} % reached after "
                f"{event['seconds']:.1f} s, {quantity(event['images'])} images and "
                f"{quantity(event['macs'])}MAC of training"
            )
        if not event["finished"]:
            self.say("the same command goes on from there")


def outcome(training: Training, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What came out of one run or of several seeds; the cost of a target with its interval."""
    reached = [one for one in results if one["reached"]]
    document: dict[str, Any] = {
        "format": 1,
        "convdyno": __version__,
        "training": training.model_dump(mode="json"),
        "runs": [{k: v for k, v in one.items() if k != "event"} for one in results],
    }
    lines = [f"{noun(len(results), 'run')}, {len(reached)} reached the target"]
    if training.until is not None and reached:
        costs = {}
        for name in ("seconds", "images", "macs"):
            mean, around = _mean([float(one[name]) for one in reached])
            costs[name] = {"mean": mean, "interval": around}
            shown = f" [{quantity(around[0])}, {quantity(around[1])}]" if around else ""
            lines.append(f"{name} to top-1 {100 * training.until:g} %: {quantity(mean)}{shown}")
        document["to_target"] = costs
    tops = [one["evaluation"]["top1"] for one in results if one["evaluation"]]
    if tops:
        lines.append("top-1: " + ", ".join(f"{100 * top:.2f} %" for top in tops))
    return document | {"lines": lines}


def _mean(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """A mean with its 95 % interval, on the log scale."""
    logs = [math.log(max(value, 1e-12)) for value in values]
    centre = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(centre), None
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    reach = float(student.quantile(0.975, len(logs) - 1)) * error
    return math.exp(centre), (math.exp(centre - reach), math.exp(centre + reach))
