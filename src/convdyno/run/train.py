"""Training: the benchmarked step, driven by a recipe, watched, evaluated and saved.

What comes out depends on the training's settings alone: not on when it was looked at, saved, killed
and taken up again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights, initial_weights
from convdyno.data.recognise import open_source, splits
from convdyno.data.source import Arrays, Source, Split
from convdyno.engines import registry
from convdyno.engines.contract import State
from convdyno.errors import BadWeights, LossLost, UsageError
from convdyno.run import checkpoint
from convdyno.run.checkpoint import Standing
from convdyno.run.evaluate import Evaluation, evaluate
from convdyno.run.feed import make_pipeline
from convdyno.run.history import History
from convdyno.run.summaries import Summaries
from convdyno.trial.spec import Trial
from convdyno.trial.training import Training, Watching
from convdyno.zoo.registry import build

EXPLODED = 100.0
"""Training stops when the loss is so many times what it was, or what guessing gives."""
PICTURES = 8
"""Images of a batch that TensorBoard shows."""
FORWARDS = 3
"""A training step counts as three forward passes."""

Say = Callable[..., None]


class Trainer:
    """One run of training in this process, from its beginning or from its latest checkpoint."""

    def __init__(self, training: Training, watching: Watching, folder: Path, say: Say) -> None:
        self._training, self._watching, self._folder, self._say = training, watching, folder, say
        self.stopping = False
        """Set to save and stop after the current step."""
        trial = training.trial
        self._kept = ExitStack()
        self.engine = registry.load(trial.engine)
        self._say("progress", what="imported")
        self._train = self._open(trial.data, "train")
        self._test = (
            self._open(trial.data, "validation") if "validation" in splits(trial.data) else None
        )
        self._blueprint = blueprint_of(trial)
        self._classes = self._train.facts.classes
        weights, state, standing = self._begin()
        self._session = self.engine.open(self._blueprint, trial, weights)
        if state is not None:
            self._session.restore(state)
        start = (standing.epoch, standing.batch)
        self._pipeline = make_pipeline(self._train, self._blueprint, trial, train=True, start=start)
        self._kept.callback(self._pipeline.close)
        self._per_epoch = self._pipeline.schedule.batches
        self._steps = max(1, round(training.epochs * self._per_epoch))
        self._step, self._seconds, self._best = standing.step, standing.seconds, standing.best
        self._begun_at = standing.step
        self._history = History(folder / "history.jsonl", after=standing.step)
        self._summaries = Summaries(folder, after=standing.step)
        self._kept.callback(self._summaries.close)
        self._tolerated = math.log(self._blueprint.classes)
        self._latest: Evaluation | None = None
        self._evaluated_at = -1

    def run(self) -> None:
        """Train to the end, the target or a signal; the last line says what came out."""
        training, trial, session = self._training, self._training.trial, self._session
        self._say(
            "begun",
            step=self._step,
            steps=self._steps,
            steps_per_epoch=self._per_epoch,
            images=len(self._train),
            test_images=len(self._test) if self._test else 0,
            classes=len(self._classes),
            parameters=self._blueprint.parameters,
            macs=self._blueprint.macs,
            versions=self.engine.versions(),
            warnings=list(session.settings.warnings),
            input=self._pipeline.facts(),
        )
        target = training.until
        reached = target is not None and self._best is not None and self._best >= target
        rate = math.nan
        saved = summarised = time.perf_counter()
        self._mark()
        with self._kept:
            while self._step < self._steps and not (self.stopping or reached):
                if (now := training.rate(self._step / self._per_epoch)) != rate:
                    rate = now
                    session.set_rate(rate)
                images, labels = next(self._pipeline)
                session.train_step(session.place(images, labels))
                self._step += 1
                if self._display_due():
                    self._display(rate)
                at_end = self._step == self._steps
                epoch_over = self._step % self._per_epoch == 0
                if self._evaluation_due() or at_end:
                    self._pause()
                    self._sound_loss()
                    reached = self._evaluate()
                    self._mark()
                if (
                    epoch_over
                    or at_end
                    or time.perf_counter() - saved > self._watching.save_seconds
                ):
                    self._pause()
                    self._save()
                    saved = time.perf_counter()
                    self._mark()
                if time.perf_counter() - summarised > self._watching.summary_seconds:
                    self._pause()
                    self._summaries.pictures(self._step, session.weights(), images[:PICTURES])
                    summarised = time.perf_counter()
                    self._mark()
            self._pause()
            if not self.stopping:
                self._evaluate()
            self._save()
            evaluation = self._latest
            self._say(
                "trained",
                step=self._step,
                steps=self._steps,
                finished=self._step == self._steps or reached,
                reached=reached,
                seconds=self._seconds,
                images=self._step * trial.batch,
                macs=FORWARDS * self._blueprint.macs * self._step * trial.batch,
                evaluation=evaluation.to_data(self._classes) if evaluation else None,
                best=self._best,
            )

    def _begin(self) -> tuple[Weights, State | None, Standing]:
        """The latest checkpoint of the folder, or the beginning."""
        latest = checkpoint.latest(self._folder)
        if latest is None:
            seed = self._training.trial.seed
            weights = initial_weights(self._blueprint, seed)
            return weights, None, Standing(self._training, 0, 0, 0, self._classes)
        weights, state, standing = checkpoint.load(latest, self._blueprint)
        if standing.training.digest != self._training.digest:
            names = differences(standing.training, self._training)
            raise UsageError(
                f"the run in {self._folder} was begun with another {' and '.join(names)}: "
                "repeat those, or give another --log-dir"
            )
        if standing.classes != self._classes:
            raise UsageError(f"the run in {self._folder} was begun with data of other classes")
        return weights, state, standing

    def _open(self, data: str, split: Split) -> Source:
        source = open_source(data, split)
        if not isinstance(source, Arrays):
            self._kept.callback(source.close)
        return source

    def _mark(self) -> None:
        """Time runs from here on."""
        self._since = self._displayed_at = time.perf_counter()
        self._displayed, self._waited = self._step, self._pipeline.wait_seconds

    def _pause(self) -> None:
        """What comes now is not training."""
        self._session.wait()
        self._seconds += time.perf_counter() - self._since
        self._since = time.perf_counter()

    def _display_due(self) -> bool:
        every = self._watching.display_every
        if every:
            return self._step % every == 0
        return time.perf_counter() - self._displayed_at >= self._watching.display_seconds

    def _display(self, rate: float) -> None:
        loss = self._sound_loss()
        now = time.perf_counter()
        elapsed, steps = now - self._displayed_at, self._step - self._displayed
        waited = self._pipeline.wait_seconds - self._waited
        shown = {
            "step": self._step,
            "epoch": self._step / self._per_epoch,
            "loss": loss,
            "rate": rate,
            "images_per_second": steps * self._training.trial.batch / elapsed,
            "wait_share": waited / elapsed,
        }
        self._seconds += now - self._since
        self._say("step", seconds=self._seconds, **shown)
        self._note("step", **shown)
        self._summaries.scalars(self._step, shown)
        self._mark()

    def _sound_loss(self) -> float:
        """The loss, as long as it means anything; NaN before the first step of this process."""
        loss = self._session.loss()
        if self._step == self._begun_at:
            return loss
        trial = self._training.trial
        limit = EXPLODED * self._tolerated
        if not math.isfinite(loss) or loss > limit:
            good = checkpoint.latest(self._folder)
            kept = f"; the last good checkpoint is {good}" if good else ""
            raise LossLost(
                f"the loss became {loss:.4g} at step {self._step}: the learning rate "
                f"{trial.optimiser.rate:g} may be too high for {trial.network} in "
                f"{trial.precision}{kept}"
            )
        return loss

    def _evaluation_due(self) -> bool:
        every = max(1, round(self._training.evaluate_every * self._per_epoch))
        return self._step % every == 0

    def _evaluate(self) -> bool:
        """Look at the test images; whether the target is reached."""
        if self._test is None or self._evaluated_at == self._step:
            return False
        session, trial = self._session, self._training.trial
        held: Weights | None = None
        if trial.optimiser.ema is not None:
            state = session.state()
            held = session.weights()
            session.load({name: state[f"average/{name}"] for name in self._blueprint.weights})
        with make_pipeline(self._test, self._blueprint, trial, train=False) as pipeline:
            found = evaluate(session, alive(pipeline, self._say), self._blueprint.classes)
        if held is not None:
            session.load(held)
        self._latest, self._evaluated_at = found, self._step
        data = found.to_data(self._classes)
        top1 = float(data["top1"])
        epoch = self._step / self._per_epoch
        self._say("evaluated", step=self._step, epoch=epoch, seconds=self._seconds, **data)
        self._note("evaluated", step=self._step, epoch=epoch, **data)
        self._summaries.scalars(
            self._step, {f"test_{name}": data[name] for name in ("top1", "top5", "loss")}
        )
        if self._best is None or top1 > self._best:
            self._best = top1
            self._save(best=True)
        return self._training.until is not None and top1 >= self._training.until

    def _save(self, *, best: bool = False) -> None:
        """A checkpoint; where it cannot be written, training goes on with the old one."""
        self._sound_loss()
        path = self._folder / checkpoint.name(self._step)
        epoch, batch = self._pipeline.position
        standing = Standing(
            self._training, self._step, epoch, batch, self._classes, self._seconds, self._best
        )
        session = self._session
        try:
            if best or not path.exists():
                checkpoint.save(path, self._blueprint, session.weights(), session.state(), standing)
            if best:
                checkpoint.mark_best(path)
            checkpoint.drop_old(self._folder, self._watching.keep)
        except (BadWeights, OSError) as wrong:
            self._say("warning", text=f"no checkpoint was saved at step {self._step}: {wrong}")
        else:
            self._say("saved", step=self._step, path=str(path))

    def _note(self, kind: str, **facts: Any) -> None:
        try:
            self._history.add({"kind": kind, "time": time.time(), **facts})
        except OSError as wrong:
            self._say("warning", text=f"the history was not written: {wrong.strerror}")


def blueprint_of(trial: Trial) -> Blueprint:
    """The network that a trial is about."""
    return build(trial.network, trial.image_size, trial.classes, trial.width, trial.auxiliary)


def differences(one: Training, other: Training) -> list[str]:
    """In what two trainings differ, in the user's words."""
    names = [n.replace("_", " ") for n in one.trial.differs_in(other.trial) if n != "engine"]
    return names + [
        name for name in ("epochs", "schedule") if getattr(one, name) != getattr(other, name)
    ]


def alive(batches: Any, say: Say) -> Any:
    """Batches as they come, with a sign of life about once a second."""
    last = time.perf_counter()
    for batch in batches:
        yield batch
        if (now := time.perf_counter()) - last > 1:
            last = now
            say("progress", what="evaluating")


def evaluate_checkpoint(
    path: Path, trial: Trial, say: Say, *, averaged: bool = True, full: bool = False
) -> dict[str, Any]:
    """What the network of a checkpoint gets right; `averaged` takes its moving average if it has
    one.

    The trial says which engine looks at which data, and has the network as it was trained.
    """
    engine = registry.load(trial.engine)
    say("progress", what="imported")
    blueprint = blueprint_of(trial)
    weights, state, standing = checkpoint.load(path, blueprint)
    averages = {name: state.get(f"average/{name}") for name in blueprint.weights}
    use_averages = averaged and all(array is not None for array in averages.values())
    if use_averages:
        weights = {name: array for name, array in averages.items() if array is not None}
    with ExitStack() as kept:
        source = open_source(trial.data, "validation")
        if not isinstance(source, Arrays):
            kept.callback(source.close)
        if source.facts.classes != standing.classes:
            raise UsageError(
                f"{trial.data} has other classes than {path} was trained on "
                f"({len(source.facts.classes)} and {len(standing.classes)}; the first that differs "
                f"is {_first_difference(source.facts.classes, standing.classes)})"
            )
        session = engine.open(blueprint, trial, weights)
        pipeline = kept.enter_context(make_pipeline(source, blueprint, trial, train=False))
        start = time.perf_counter()
        found = evaluate(session, alive(pipeline, say), blueprint.classes)
        return found.to_data(standing.classes, full=full) | {
            "step": standing.step,
            "averaged": use_averages,
            "seconds": time.perf_counter() - start,
            "versions": engine.versions(),
            "input": pipeline.facts(),
        }


def _first_difference(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    for a, b in zip_longest(one, other, fillvalue="none"):
        if a != b:
            return f"{a!r} instead of {b!r}"
    return "none"
