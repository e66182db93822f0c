"""One process running one trial, told what to do by JSON lines on standard input.

Each command is answered by one line `{"event": ..., ...}` on what was standard output; whatever a
framework prints goes to standard error instead. Any failed run can be repeated by hand:

    echo '{"do": "open", "trial": {...}}' | python -m convdyno.run.worker

| command | answer |
|---|---|
| `{"do": "greet", "pins": [0], ...}`     | `greeted`: where it is, which ports are free |
| `{"do": "join", "world": {...}, ...}`   | `joined`: the engine is in touch with the other ranks |
| `{"do": "open", "trial": {...}, ...}`   | `opened`: facts, settings, times so far |
| `{"do": "warm", "seconds": 10, ...}`    | `warmed`: warm-up blocks, whether steady |
| `{"do": "measure", "turn": 0, "blocks": 5}` | `measured`: the blocks |
| `{"do": "probe"}`                       | `probed`: peaks |
| `{"do": "pose", ...}`, `{"do": "answer", ...}` | files that a certificate is made of |
| `{"do": "train", "training": {...}, ...}` | `begun`, `step`s, `evaluated`, `saved`, `trained` |
| `{"do": "evaluate", "checkpoint": ...}` | `evaluated` |
| `{"do": "close"}`                       | `closed`: last loss, memory; the process ends |

While opening, `progress` lines tell that it is alive; a rank that has joined others says `alive`
every few seconds whatever it does. `ping` is not answered. A failure is answered by `failed` with a
status and a reason, and the process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import psutil

from convdyno import __version__
from convdyno.errors import ConvdynoError, LossLost, Refused, TrialFailed, UsageError
from convdyno.machine.processor import usable_cores
from convdyno.rendezvous import reserve
from convdyno.run.ranks import Ranks
from convdyno.trial.spec import Trial
from convdyno.trial.world import World

if TYPE_CHECKING:
    from convdyno.engines.contract import Engine

BEAT_SECONDS = 3.0
"""How often a rank says that it is alive, at least."""
BEATS = 20
"""How often it does so in the time after which others give up waiting for it, at least."""


class Worker:
    """A trial in this process, from opening to closing."""

    engine: Engine

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.speaking = threading.Lock()
        self.compilations = 0
        self.import_seconds = 0.0
        self.ranks = Ranks()
        self.reserved: list[socket.socket] = []
        """Ports at which this rank will listen: the engine's, and that of `Ranks`."""

    def say(self, event: str, **facts: Any) -> None:
        """Answer one line."""
        line = json.dumps({"event": event, **facts}) + "\n"
        with self.speaking:
            self.out.write(line)
            self.out.flush()

    def greet(self, pins: list[int] | None, local_rank: int, local_size: int, device: str) -> None:
        """Take a share of this machine, and say what the other ranks must know of it."""
        from convdyno.machine import facts
        from convdyno.run import pinning

        if pins is not None:
            pinning.pin(pins)
        allocated, shown = facts.allocated(), os.environ.get("CUDA_VISIBLE_DEVICES")
        if device != "cpu":
            pinning.choose_gpu(local_rank, local_size)
        self.reserved = [reserve(), reserve()]
        ports = [held.getsockname()[1] for held in self.reserved]
        if sys.platform != "linux":  # A framework could not listen there as well.
            for held in self.reserved:
                held.close()
        self.say(
            "greeted",
            host=socket.gethostname(),
            pid=os.getpid(),
            ports=ports,
            convdyno=__version__,
            time=time.time(),
            cores=usable_cores(),
            visible=shown,
            allocated=allocated,
        )

    def join(self, world: dict[str, Any], trial: dict[str, Any]) -> None:
        """Meet the other ranks: from here on this one is known to be alive."""
        wanted = World.model_validate(world)
        pause = min(BEAT_SECONDS, wanted.timeout_seconds / BEATS)
        threading.Thread(target=self._beat, args=[pause], daemon=True).start()
        there, self.trial = _settled(wanted), Trial.model_validate(trial)
        self._import(self.trial.engine)
        self.ranks = Ranks(there)
        exchanged = self.trial.mode == "train" and self.trial.exchange != "independent"
        if exchanged and not self.ranks.alone:
            self.engine.join(there, self.trial)
        self.say("joined")

    def open(self, trial: dict[str, Any], steps: int = 1, memory_share: float = 1.0) -> None:
        """Build the network, load it and make the first steps.

        `memory_share` is how much may be used of the memory that was free when this process began.
        """
        _lower_memory_limit(memory_share)
        self.trial = Trial.model_validate(trial)
        self._import(self.trial.engine)
        from convdyno.blueprint.weights import initial_weights
        from convdyno.run.energy import find
        from convdyno.run.feed import blueprint_of, open_feed
        from convdyno.run.measure import Meter, shared_joules, siblings

        start = time.perf_counter()
        trial_, engine, ranks = self.trial, self.engine, self.ranks
        blueprint = blueprint_of(trial_)
        session = engine.open(blueprint, trial_, initial_weights(blueprint, trial_.seed))
        feed = self.feed = open_feed(engine, session, blueprint, trial_, ranks.world)
        session.wait()
        built = time.perf_counter()
        self.say("progress", what="built")

        self.session = session
        self.meter = Meter(feed.run, session.wait, session.clock, trial_.latency, feed.waited)
        self.meter.agree = ranks.agree
        self.meter.siblings = siblings(ranks)
        found = find(session.settings.device, trial_.devices // ranks.world.size or 1)
        self.meter.joules = shared_joules(ranks, found)
        first = self.meter.block()
        self.first_loss = self._loss()
        losses = [self.first_loss, *(self._next_loss() for _ in range(steps - 1))]
        self.say(
            "opened",
            host=socket.gethostname(),
            pid=os.getpid(),
            import_seconds=self.import_seconds,
            build_seconds=built - start,
            first_step_seconds=first.seconds,
            first_loss=self.first_loss,
            losses=[loss for loss in losses if loss is not None] if steps > 1 else [],
            energy=self.meter.joules.facts().model_dump(),
            versions=engine.versions(),
            settings=asdict(session.settings),
            input=feed.facts,
            network={
                "digest": blueprint.digest,
                "parameters": blueprint.parameters,
                "macs": blueprint.macs,
                "image": blueprint.image,
                "classes": blueprint.classes,
                "nodes": len(blueprint.nodes),
            },
        )

    def warm(self, seconds: float, brief: bool = False) -> None:
        """Warm up until steady, for so many seconds at the most."""
        from convdyno.run.measure import gc_paused

        start = time.perf_counter()
        with gc_paused():
            blocks, steady = self.meter.warm_up(seconds, brief)
        self.compilations = self.session.compilations()
        self._loss()
        self.say(
            "warmed",
            warmup=[block.model_dump() for block in blocks],
            warmup_seconds=time.perf_counter() - start,
            steady=steady,
            memory_bytes=psutil.Process().memory_info().rss,
        )

    def measure(self, turn: int, blocks: int) -> None:
        """Measure one turn."""
        measured = self.meter.turn(turn, blocks)
        self.say(
            "measured",
            blocks=[block.model_dump() for block in measured],
            last_loss=self._loss(),
            recompilations=self.session.compilations() - self.compilations,
        )

    def probe(self) -> None:
        """Measure the device's peaks, and the loader alone."""
        from convdyno.run.measure import probe

        peaks = [*probe(self.session)]
        if (alone := self.feed.alone()) is not None:
            peaks.append(alone)
        self.say("probed", peaks=[peak.model_dump() for peak in peaks])

    def pose(self, blueprint: str, question: str, to: str, manner: dict[str, Any], node: str | None,
             whole: str, engine: str, seed: int) -> None:  # fmt: skip
        """As the reference: choose what a certificate asks, and what is right, in two files."""
        from convdyno.run import asked

        self._import(engine)
        said = asked.pose(self.engine, blueprint, question, to, manner, node, whole, seed)
        self.say("posed", **said)

    def answer(self, engine: str, blueprint: str, question: str, to: str, manner: dict[str, Any],
               node: str | None, brief: bool, suspect: str) -> None:  # fmt: skip
        """Write what an engine computes to a file, for the whole network or up to one node."""
        from convdyno.run import asked

        self._import(engine)
        about = (blueprint, question, to, manner, node, brief, suspect, self.ranks)
        asked.answer(self.engine, engine, *about)
        self.say("answered")

    def train(self, training: dict[str, Any], watching: dict[str, Any], folder: str) -> None:
        """Train on from the folder's latest checkpoint, if any; a signal saves and ends."""
        from convdyno.run.train import RankTrainer
        from convdyno.trial.training import Training, Watching

        wanted, watch = Training.model_validate(training), Watching.model_validate(watching)
        self.trial = wanted.trial
        trainer = RankTrainer(wanted, watch, Path(folder), self.say, self.ranks)
        for number in (signal.SIGTERM, signal.SIGUSR1):  # Slurm sends them to every process.
            signal.signal(number, trainer.stop)
        if not trainer.finished:
            self._import(wanted.trial.engine)
            trainer.run(self.engine)
        trainer.conclude()

    def evaluate(self, checkpoint: str, trial: dict[str, Any], averaged: bool, full: bool) -> None:
        """Count what a checkpoint's network gets right over all images of a split."""
        from convdyno.run.evaluate import TrainedNetwork

        self.trial = Trial.model_validate(trial)
        candidate = TrainedNetwork(Path(checkpoint), self.trial, self.ranks, averaged=averaged)
        self._import(self.trial.engine)
        self.say("evaluated", **candidate.evaluate(self.engine, self.say, full=full))

    def close(self) -> None:
        """Say what is left to say, and end."""
        self.feed.close()
        if not self.ranks.alone:
            self.engine.leave()
            self.ranks.close()
        self.say(
            "closed",
            peak_memory_bytes=_peak_memory_bytes(),
            device_memory_bytes=self.session.memory_bytes(),
        )

    def _import(self, name: str) -> None:
        """The engine; its imports are what a worker is for, and are timed."""
        if hasattr(self, "engine"):
            return
        start = time.perf_counter()
        from convdyno.engines import registry

        self.engine = registry.load(name)
        self.import_seconds = time.perf_counter() - start
        self.say("progress", what="imported")

    def _beat(self, pause: float) -> None:
        """Signs of life from a thread of its own, whatever the others do."""
        while True:
            self.say("alive", said=self.ranks.said)
            time.sleep(pause)

    def _next_loss(self) -> float | None:
        self.meter.run(1)
        self.meter.wait()
        return self._loss()

    def _loss(self) -> float | None:
        if self.trial.mode == "infer":
            return None
        loss = self.session.loss()
        if not math.isfinite(loss):
            raise LossLost(
                f"the loss became {loss}: the learning rate {self.trial.optimiser.rate:g} "
                f"may be too high for {self.trial.network} in {self.trial.precision}"
            )
        return loss


def main() -> None:
    """Answer commands until closed, or until the parent is gone."""
    out = _claim_output()
    _end_with_parent()
    _be_first_to_go()
    worker = Worker(out)
    commands: dict[str, Callable[..., None]] = {
        "greet": worker.greet,
        "join": worker.join,
        "open": worker.open,
        "warm": worker.warm,
        "measure": worker.measure,
        "probe": worker.probe,
        "pose": worker.pose,
        "answer": worker.answer,
        "train": worker.train,
        "evaluate": worker.evaluate,
        "close": worker.close,
    }
    for line in sys.stdin:
        command = json.loads(line)
        name = command.pop("do")
        if name == "ping":
            continue
        try:
            commands[name](**command)
        except Exception as error:
            worker.say("failed", **_failure(worker, error))
            sys.exit(1)
        if name == "close":
            return


def _failure(worker: Worker, error: Exception) -> dict[str, Any]:
    traceback.print_exc()
    engine = getattr(worker, "engine", None)
    if isinstance(error, MemoryError) or (engine and engine.out_of_memory(error)):
        reason = "out of memory"
        if trial := getattr(worker, "trial", None):
            reason += (
                f" with {trial.batch} images per device ({trial.network}, "
                f"{trial.precision}, {trial.mode}): try a smaller --batch"
            )
        return {"status": "oom", "reason": reason}
    if isinstance(error, LossLost):
        return {"status": "nan", "reason": str(error)}
    if isinstance(error, Refused | UsageError):
        return {"status": "refused", "reason": str(error)}
    if isinstance(error, TrialFailed):
        return {"status": error.status, "reason": str(error)}
    text = str(error).strip() or type(error).__name__
    kind = "" if isinstance(error, ConvdynoError) else f"{type(error).__name__}: "
    return {"status": "failed", "reason": kind + text.splitlines()[0]}


def _settled(world: World) -> World:
    """A world of several machines with the interface of this one's address, if nobody named it."""
    from convdyno.run.host_facts import whereabouts

    if world.alone or world.interface is not None:
        return world
    return world.model_copy(update={"interface": whereabouts(world.host)[1]})


def _claim_output() -> TextIO:
    """Keep standard output for answers; what a library prints there goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def _end_with_parent() -> None:
    """Die when the parent does, even while stopped (Linux; elsewhere the closed pipe ends us)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        parent_death_signal = 1
        ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)


def _be_first_to_go() -> None:
    """Fail cleanly instead of dragging the machine down: when memory ends, it ends for us.

    Allocations beyond what is free now are refused, which frameworks report as out of memory;
    should the kernel have to choose all the same, it chooses this process. Not with a GPU, whose
    driver reserves address space far beyond memory.
    """
    if sys.platform != "linux" or Path("/dev/nvidiactl").exists():
        return
    with contextlib.suppress(OSError):  # Some containers forbid it.
        Path("/proc/self/oom_score_adj").write_text("1000")
    from convdyno.machine.facts import free_memory

    free = free_memory()
    resource.setrlimit(resource.RLIMIT_DATA, (free, free))


def _lower_memory_limit(share: float) -> None:
    """Leave some of the memory that was free to others, where there is a limit at all."""
    most, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if share < 1 and most != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_DATA, (int(share * most), hard))


def _peak_memory_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main()
