"""Training: the benchmarked step, driven by a recipe, watched, evaluated and saved.

What comes out depends on the training's settings alone: not on when it was looked at, saved, killed
and taken up again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from convdyno.blueprint.portable import check_values
from convdyno.blueprint.weights import Weights, initial_weights
from convdyno.data.damage import Tolerance
from convdyno.data.pipeline import Pipeline, Schedule
from convdyno.data.recognise import open_source, splits
from convdyno.data.source import Arrays, Source, Split
from convdyno.data.synthetic import HostBatch
from convdyno.engines.contract import OPTIONAL, Engine, Session, State
from convdyno.errors import BadWeights, LossLost, UsageError
from convdyno.run import checkpoint
from convdyno.run.checkpoint import Standing
from convdyno.run.evaluate import alive, evaluate
from convdyno.run.feed import blueprint_of, make_pipeline
from convdyno.run.history import History
from convdyno.run.summaries import Summaries
from convdyno.trial.training import Training, Watching

EXPLODED = 100.0
"""Training stops when the loss is so many times what guessing gives."""
PICTURES = 8
"""Images of a batch that TensorBoard shows."""
FORWARDS = 3
"""A training step counts as three forward passes."""
QUIET_SECONDS = 10.0
"""A sign of life comes at least so often."""

Say = Callable[..., None]


class Trainer:
    """One run of training in this process, from its beginning or from its latest checkpoint."""

    _session: Session
    _pipeline: Pipeline

    def __init__(self, training: Training, watching: Watching, folder: Path, say: Say) -> None:
        self._training, self._watching, self._folder, self._say = training, watching, folder, say
        self._trial = trial = training.trial
        self._stopping = False
        self._kept = ExitStack()
        self._blueprint = blueprint_of(trial)
        self._train = self._open("train")
        self._test = self._open("validation") if "validation" in splits(trial.data) else None
        if training.until is not None and self._test is None:
            raise UsageError(f"a target needs test images, and {trial.data} has none")
        self._classes = self._train.facts.classes
        self._per_epoch = Schedule(len(self._train), trial.batch, endless=True).batches
        self._steps = max(1, round(training.epochs * self._per_epoch))
        self._weights, self._state, standing = self._begin()
        self._step = self._begun_at = standing.step
        self._seconds = standing.seconds
        self._best, self._best_step = standing.best, standing.best_step
        try:
            self._history = History(folder / "history.jsonl", after=standing.step)
            if self._best_step == self._step:  # A kill may have come between the two files.
                checkpoint.mark_best(folder / checkpoint.name(self._step))
        except OSError as wrong:
            raise UsageError(f"{folder} cannot be written: {wrong.strerror}") from None
        self._latest = self._history.last("evaluated")
        known = self._latest is not None and self._latest["step"] == standing.evaluated
        self._evaluated = standing.evaluated if known else -1
        self._saved = (standing.step, standing.evaluated) if self._state else (-1, -1)
        self._ran = False
        self._summaries = Summaries(folder, self._step, lambda text: say("warning", text=text))
        self._kept.callback(self._summaries.close)

    def stop(self, *_: object) -> None:
        """Save and end after the current step."""
        self._stopping = True

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return (self._step == self._steps or self._reached) and not self._evaluation_due()

    def run(self, engine: Engine) -> None:
        """Train to the end, the target or a signal."""
        training, trial, self._ran = self._training, self._trial, True
        session = self._session = engine.open(self._blueprint, trial, self._weights)
        if self._state:
            session.restore(self._state)
        self._weights, self._state = {}, {}
        with self._kept:
            self._pipeline = self._batches(self._train, train=True)
            self._kept.callback(self._pipeline.close)
            self._say_begun(engine)
            rate = math.nan
            saved, summarised = time.perf_counter(), -math.inf
            self._shown_at = saved
            self._mark()
            while True:
                if self._evaluation_due():
                    self._pause()
                    self._sound_loss()
                    self._evaluate()
                    self._mark()
                elapsed = time.perf_counter() - saved
                epoch_over = self._step % self._per_epoch == 0 and self._step > self._begun_at
                over = self._step == self._steps or self._stopping or self._reached
                if over or epoch_over or elapsed > self._watching.save_seconds:
                    self._pause()
                    self._save()
                    saved = time.perf_counter()
                    self._mark()
                if over:
                    break
                if (now := training.rate(self._step / self._per_epoch)) != rate:
                    rate = now
                    session.set_rate(rate)
                images, labels = next(self._pipeline)
                session.train_step(session.place(images, labels))
                self._step += 1
                if self._display_due():
                    self._display(rate)
                elif time.perf_counter() - self._since > QUIET_SECONDS:
                    self._pause()
                    self._say("progress", what="training")
                if time.perf_counter() - summarised > self._watching.summary_seconds:
                    self._pause()
                    self._summaries.pictures(self._step, self._sound_weights(), images[:PICTURES])
                    summarised = time.perf_counter()
                    self._mark()

    def conclude(self) -> None:
        """Say what came out."""
        images = self._step * self._trial.batch
        self._say(
            "trained",
            step=self._step,
            steps=self._steps,
            finished=self.finished,
            already=not self._ran,
            reached=self._reached,
            seconds=self._seconds,
            images=images,
            macs=FORWARDS * self._blueprint.macs * images,
            evaluation=self._latest if self._evaluated == self._step else None,
            best=self._best,
        )

    def _say_begun(self, engine: Engine) -> None:
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
            digest=self._blueprint.digest,
            versions=engine.versions(),
            warnings=list(self._session.settings.warnings),
            input=self._pipeline.facts(),
        )

    def _begin(self) -> tuple[Weights, State, Standing]:
        """The latest checkpoint of the folder, or the beginning."""
        latest = checkpoint.latest(self._folder)
        if latest is None:
            weights = initial_weights(self._blueprint, self._trial.seed)
            return weights, {}, Standing(self._training, 0, 0, 0, self._classes)
        weights, state, standing = checkpoint.load(latest, self._blueprint)
        if names := standing.training.differs_in(self._training):
            raise UsageError(
                f"the run in {self._folder} was begun with another {' and '.join(names)}: "
                "repeat those, or give another --log-dir"
            )
        place = divmod(standing.step, self._per_epoch)
        if standing.classes != self._classes or (standing.epoch, standing.batch) != place:
            raise UsageError(
                f"the run in {self._folder} was begun with other images in {self._trial.data}"
            )
        return weights, state, standing

    def _open(self, split: Split) -> Source:
        source = open_source(self._trial.data, split)
        if not isinstance(source, Arrays):
            self._kept.callback(source.close)
        return source

    def _batches(self, source: Source, *, train: bool) -> Pipeline:
        return make_pipeline(
            source,
            self._blueprint,
            self._trial,
            train=train,
            start=divmod(self._step, self._per_epoch) if train else (0, 0),
            tolerance=Tolerance(self._trial.on_bad, len(source)),
        )

    def _mark(self) -> None:
        """Time runs from here on."""
        self._since = self._window = time.perf_counter()
        self._window_step, self._waited = self._step, self._pipeline.wait_seconds

    def _pause(self) -> None:
        """What comes now is not training."""
        self._session.wait()
        self._seconds += time.perf_counter() - self._since
        self._since = time.perf_counter()

    def _display_due(self) -> bool:
        every = self._watching.display_every
        if every:
            return self._step % every == 0
        return time.perf_counter() - self._shown_at >= self._watching.display_seconds

    def _display(self, rate: float) -> None:
        loss = self._sound_loss()
        now = time.perf_counter()
        elapsed, steps = now - self._window, self._step - self._window_step
        waited = self._pipeline.wait_seconds - self._waited
        shown = {
            "step": self._step,
            "epoch": self._step / self._per_epoch,
            "loss": loss,
            "rate": rate,
            "images_per_second": steps * self._trial.batch / elapsed,
            "wait_share": waited / elapsed,
        }
        self._seconds += now - self._since
        self._say("step", seconds=self._seconds, **shown)
        self._note("step", **shown)
        self._summaries.scalars(self._step, shown)
        self._shown_at = time.perf_counter()
        self._mark()

    def _sound_loss(self) -> float:
        """The loss, as long as it means anything; NaN before the first step of this process."""
        loss = self._session.loss()
        limit = EXPLODED * math.log(self._blueprint.classes)
        if self._step > self._begun_at and not loss <= limit:
            raise LossLost(f"the loss became {loss:.4g} at step {self._step}: {self._advice()}")
        return loss

    def _sound_weights(self) -> Weights:
        """The weights, as long as they are numbers: a loss shows only what was before its step."""
        self._sound_loss()
        weights = self._session.weights()
        try:
            check_values(f"step {self._step} spoilt the weights", self._blueprint, weights)
        except BadWeights as wrong:
            raise LossLost(f"{wrong}: {self._advice()}") from None
        return weights

    def _sound_state(self) -> State:
        """What the update rule remembers, as long as it is numbers."""
        state = self._session.state()
        for name, array in state.items():
            if not name.startswith(OPTIONAL) and not np.isfinite(array).all():
                raise LossLost(f"step {self._step} spoilt {name!r}: {self._advice()}")
        return state

    def _advice(self) -> str:
        trial, good = self._trial, checkpoint.latest(self._folder)
        kept = f"; the last good checkpoint is {good}" if good else ""
        return (
            f"the learning rate {trial.optimiser.rate:g} may be too high for {trial.network} in "
            f"{trial.precision}{kept}"
        )

    @property
    def _reached(self) -> bool:
        """Whether the target was met just now."""
        target, latest = self._training.until, self._latest
        if target is None or latest is None or self._evaluated != self._step:
            return False
        return bool(latest["top1"] >= target)

    def _evaluation_due(self) -> bool:
        every = max(1, round(self._training.evaluate_every * self._per_epoch))
        due = self._step == self._steps or (self._step > 0 and self._step % every == 0)
        return due and self._test is not None and self._evaluated != self._step

    def _evaluate(self) -> None:
        """Look at the test images; a signal to stop leaves that to the next process."""
        assert self._test is not None
        session = self._session
        held: tuple[Weights, State] | None = None
        if self._trial.optimiser.ema is not None:
            state = session.state()
            held = session.weights(), state
            session.load({name: state[f"average/{name}"] for name in self._blueprint.weights})
        try:
            with self._batches(self._test, train=False) as pipeline:
                found = evaluate(session, self._unless_stopped(pipeline), self._blueprint.classes)
        except _Stopped:
            return
        finally:
            if held is not None:
                session.load(held[0])
                session.restore(held[1])
        shown = {"step": self._step, "epoch": self._step / self._per_epoch}
        shown |= found.to_data(self._classes)
        self._latest, self._evaluated = shown, self._step
        self._say("evaluated", seconds=self._seconds, **shown)
        self._note("evaluated", **shown)
        self._summaries.scalars(
            self._step, {f"test_{name}": shown[name] for name in ("top1", "top5", "loss")}
        )
        if self._best is None or shown["top1"] > self._best:
            self._best, self._best_step = shown["top1"], self._step
            self._save()

    def _unless_stopped(self, pipeline: Pipeline) -> Iterator[HostBatch]:
        for batch in alive(pipeline, self._say):
            if self._stopping:
                raise _Stopped
            yield batch

    def _save(self) -> None:
        """A checkpoint; where it cannot be written, training goes on with the old one."""
        if self._saved == (self._step, self._evaluated):
            return
        path = self._folder / checkpoint.name(self._step)
        weights, state = self._sound_weights(), self._sound_state()
        standing = Standing(
            self._training,
            self._step,
            *divmod(self._step, self._per_epoch),
            self._classes,
            self._seconds,
            self._best,
            self._best_step,
            self._evaluated,
        )
        try:
            checkpoint.save(path, self._blueprint, weights, state, standing)
            if self._best_step == self._step:
                checkpoint.mark_best(path)
            checkpoint.drop_old(self._folder, self._watching.keep)
        except (BadWeights, OSError) as wrong:
            self._say("warning", text=f"no checkpoint was saved at step {self._step}: {wrong}")
        else:
            self._saved = self._step, self._evaluated
            self._say("saved", step=self._step, path=str(path))

    def _note(self, kind: str, **facts: Any) -> None:
        try:
            self._history.add({"kind": kind, "time": time.time(), **facts})
        except OSError as wrong:
            self._say("warning", text=f"the history was not written: {wrong.strerror}")


class _Stopped(Exception):
    """Somebody asked to end while the test images were looked at."""
