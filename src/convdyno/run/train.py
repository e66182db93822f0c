"""Training: the benchmarked step, driven by a recipe, watched, evaluated and saved.

What comes out depends on the training's settings alone: not on when it was looked at, saved, killed
and taken up again. Several ranks run the same loop, each on its share of every batch; what only a
clock or a signal can tell they agree on, and rank 0 alone writes and speaks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

from convdyno.data.detect import open_source, splits
from convdyno.data.pipeline import BatchOrder, Pipeline
from convdyno.data.source import DecodedImages, Source, Split
from convdyno.data.synthetic import HostBatch
from convdyno.data.tolerance import Tolerance
from convdyno.engines.contract import Engine, Session
from convdyno.errors import BadWeights, UsageError
from convdyno.run import checkpoint
from convdyno.run.cadence import QUIET_SECONDS, Cadence
from convdyno.run.checkpoint import TrainingStanding
from convdyno.run.divergence import Divergence
from convdyno.run.evaluate import EvaluationStopped, alive, examine
from convdyno.run.feed import blueprint_of, make_pipeline
from convdyno.run.journal import Journal
from convdyno.run.ranks import Ranks, pack, unpack
from convdyno.run.resume import compare_data, take_up
from convdyno.trial.training import Training, Watching

PICTURES = 8
"""Images of a batch that TensorBoard shows."""
FORWARDS = 3
"""A training step counts as three forward passes."""
SAID_BY_ALL = ("progress", "trained")

Say = Callable[..., None]


class RankTrainer:
    """One rank of a run of training, from its beginning or from its latest checkpoint."""

    _session: Session
    _pipeline: Pipeline
    _cadence: Cadence
    _journal: Journal | None = None
    """Of rank 0, which writes for all."""

    def __init__(
        self, training: Training, watching: Watching, folder: Path, say: Say, ranks: Ranks
    ) -> None:
        self._training, self._watching, self._folder = training, watching, folder
        self._ranks = ranks
        self._tell = say
        self._trial = trial = training.trial
        self._stopping = self._ending = False
        self._kept = ExitStack()
        self._blueprint = blueprint_of(trial)
        self._train = self._open("train")
        self._test = self._open("validation") if "validation" in splits(trial.data) else None
        compare_data(self._train, self._test, ranks)
        if training.until is not None and self._test is None:
            raise UsageError(f"a target needs test images, and {trial.data} has none")
        self._classes = self._train.facts.classes
        self._per_epoch = BatchOrder(len(self._train), trial.global_batch, endless=True).batches
        self._steps = training.steps(self._per_epoch)
        self._between = max(1, round(training.evaluate_every * self._per_epoch))
        self._weights, self._state, standing = take_up(
            training, self._blueprint, self._classes, self._per_epoch, folder, ranks
        )
        self._step = self._begun_at = standing.step
        self._epochs_before = standing.training.epochs
        self._seconds, self._rate = standing.seconds, math.nan
        self._best, self._best_step = standing.best, standing.best_step
        self._latest = ranks.agree(self._open_journal() if ranks.first else None)
        known = self._latest is not None and self._latest["step"] == standing.evaluated
        self._evaluated = standing.evaluated if known else -1
        self._saved = (standing.step, standing.evaluated) if self._state else (-1, -1)
        self._ran, self._unsaved = False, ""
        self._divergence = Divergence(self._blueprint, trial, folder, ranks)

    def stop(self, *_: object) -> None:
        """Save and end after the current step, or as soon as all ranks look up."""
        self._stopping = True

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return (self._step == self._steps or self._reached) and not self._evaluation_due()

    def run(self, engine: Engine) -> None:
        """Train to the end, the target or a signal."""
        self._ran = True
        session = self._session = engine.open(self._blueprint, self._trial, self._weights)
        if self._state:
            session.restore(self._state)
        self._weights, self._state = {}, {}
        with self._kept:
            self._pipeline = self._batches(self._train, train=True)
            self._kept.callback(self._pipeline.close)
            self._say_begun(engine)
            self._cadence = Cadence(self._watching, self._ranks, self._step)
            self._mark()
            while not (self._cadence.due(self._step, self._stopping) and self._look()):
                self._advance()

    def conclude(self) -> None:
        """Say what came out."""
        images = self._step * self._trial.global_batch
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
            saved=self._saved[0],
            unsaved=self._unsaved,
            evaluation=self._latest if self._evaluated == self._step else None,
            best=self._best,
        )

    def _advance(self) -> None:
        session, rate = self._session, self._training.rate(self._step / self._per_epoch)
        if rate != self._rate:
            self._rate = rate
            session.set_rate(rate)
        self._images, labels = next(self._pipeline)
        session.train_step(session.place(self._images, labels))
        self._step += 1

    def _look(self) -> bool:
        """Do what is due at this step, all ranks alike; whether training is over."""
        if not self._ranks.alone:
            self._session.wait()
        look = self._cadence.look(self._step, self._stopping)
        self._ending, moved = look.stop, self._step > self._begun_at
        if look.display and moved:
            self._display()
        elif time.perf_counter() - self._since > QUIET_SECONDS:
            self._pause()
            self._say("progress", what="training")
        if look.picture and moved:
            self._show_pictures()
        if self._evaluation_due():
            self._pause()
            self._checked_loss()
            self._evaluate()
            self._mark()
        over = self._step == self._steps or self._ending or self._reached
        if over or look.save or (self._step % self._per_epoch == 0 and moved):
            self._pause()
            self._save()
            self._cadence.done("save")
            self._mark()
        certain = (self._steps, self._per_epoch, self._between)
        self._cadence.go_on(self._step, min(every - self._step % every for every in certain))
        return over

    def _say_begun(self, engine: Engine) -> None:
        warnings = chain(*self._ranks.gather(list(self._session.settings.warnings)))
        self._say(
            "begun",
            step=self._step,
            steps=self._steps,
            epochs_before=self._epochs_before,
            steps_per_epoch=self._per_epoch,
            images=len(self._train),
            test_images=len(self._test) if self._test else 0,
            classes=len(self._classes),
            parameters=self._blueprint.parameters,
            macs=self._blueprint.macs,
            digest=self._blueprint.digest,
            versions=engine.versions(),
            warnings=list(dict.fromkeys(warnings)),
            input=self._pipeline.facts(),
        )

    def _open_journal(self) -> dict[str, Any] | None:
        """Make the folder's files agree with its checkpoint; the latest evaluation until then."""
        try:
            self._journal = Journal(self._folder, self._step, self._warn)
            if self._best_step == self._step:  # A kill may have come between the two files.
                checkpoint.mark_best(self._folder / checkpoint.name(self._step))
        except OSError as wrong:
            raise UsageError(f"{self._folder} cannot be written: {wrong.strerror}") from None
        self._kept.callback(self._journal.event_files.close)
        return self._journal.last("evaluated")

    def _open(self, split: Split) -> Source:
        source = open_source(self._trial.data, split)
        if not isinstance(source, DecodedImages):
            self._kept.callback(source.close)
        return source

    def _batches(self, source: Source, *, train: bool) -> Pipeline:
        return make_pipeline(
            source,
            self._blueprint,
            self._trial,
            self._ranks.world,
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

    def _display(self) -> None:
        loss = self._checked_loss()
        now = time.perf_counter()
        waits = self._ranks.gather(self._pipeline.wait_seconds - self._waited)
        elapsed, steps = now - self._window, self._step - self._window_step
        shown = {
            "step": self._step,
            "epoch": self._step / self._per_epoch,
            "loss": loss,
            "rate": self._rate,
            "images_per_second": steps * self._trial.global_batch / elapsed,
            "wait_share": waits[0] / elapsed,
        }
        if not self._ranks.alone:
            shown["largest_wait_share"] = max(waits) / elapsed
        self._seconds += now - self._since
        self._say("step", seconds=self._seconds, **shown)
        if self._journal:
            self._journal.note("step", self._step, shown, shown)
        self._cadence.done("display")
        self._mark()

    def _show_pictures(self) -> None:
        self._pause()
        self._checked_loss()
        if self._journal:
            weights = self._divergence.weights(self._step, self._session.weights())
            self._journal.event_files.pictures(self._step, weights, self._images[:PICTURES])
        self._cadence.done("picture")
        self._mark()

    def _checked_loss(self) -> float:
        """The mean loss of all ranks; NaN before the first step of this process."""
        losses = self._ranks.gather(self._session.loss())
        if self._step > self._begun_at:
            self._divergence.loss(self._step, losses)
        return sum(losses) / len(losses)

    @property
    def _reached(self) -> bool:
        """Whether the target was met just now."""
        target, latest = self._training.until, self._latest
        if target is None or latest is None or self._evaluated != self._step:
            return False
        return bool(latest["top1"] >= target)

    def _evaluation_due(self) -> bool:
        due = self._step == self._steps or (self._step > 0 and self._step % self._between == 0)
        return due and self._test is not None and self._evaluated != self._step

    def _evaluate(self) -> None:
        """Look at the test images; a signal to stop leaves that to the next process."""
        assert self._test is not None
        averaged = self._trial.optimiser.ema is not None
        with self._batches(self._test, train=False) as pipeline:
            share = self._unless_stopped(pipeline)
            found = examine(self._session, share, self._blueprint, averaged, self._ranks)
        if found is None:
            self._ending = True
            return
        shown = {"step": self._step, "epoch": self._step / self._per_epoch}
        shown |= found.to_data(self._classes)
        self._latest, self._evaluated = shown, self._step
        self._say("evaluated", seconds=self._seconds, **shown)
        scalars = {f"test_{name}": shown[name] for name in ("top1", "top5", "loss")}
        if self._journal:
            facts = {**shown, "seconds": self._seconds}
            self._journal.note("evaluated", self._step, facts, scalars)
        if self._best is None or shown["top1"] > self._best:
            self._best, self._best_step = shown["top1"], self._step
            self._save()

    def _unless_stopped(self, pipeline: Pipeline) -> Iterator[HostBatch]:
        for batch in alive(pipeline, self._say):
            if self._stopping:
                raise EvaluationStopped
            yield batch

    def _save(self) -> None:
        """A checkpoint; where it cannot be written, training goes on with the old one."""
        if self._ranks.agree(self._saved == (self._step, self._evaluated)):
            return
        self._checked_loss()
        state = self._session.state()
        randoms = self._ranks.gather(pack(checkpoint.random_part(state)))
        if not self._ranks.first:
            return
        weights = self._divergence.weights(self._step, self._session.weights())
        state = self._divergence.state(self._step, state)
        state |= checkpoint.random_of_all([unpack(one) for one in randoms])
        standing = TrainingStanding(
            self._training,
            self._step,
            *divmod(self._step, self._per_epoch),
            self._classes,
            self._seconds,
            self._best,
            self._best_step,
            self._evaluated,
        )
        path = self._folder / checkpoint.name(self._step)
        try:
            checkpoint.save(path, self._blueprint, weights, state, standing)
            if self._best_step == self._step:
                checkpoint.mark_best(path)
            checkpoint.drop_old(self._folder, self._watching.keep)
        except (BadWeights, OSError) as wrong:
            self._unsaved = str(wrong)
            self._warn(f"no checkpoint was saved at step {self._step}: {wrong}")
        else:
            self._unsaved = ""
            self._saved = self._step, self._evaluated
            self._say("saved", step=self._step, path=str(path))

    def _say(self, event: str, **facts: Any) -> None:
        if self._ranks.first or event in SAID_BY_ALL:
            self._tell(event, **facts)

    def _warn(self, text: str) -> None:
        self._say("warning", text=text)
