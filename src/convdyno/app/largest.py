"""A batch of `max`: cells whose batch is the largest that memory holds."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from convdyno.app.cells import make_trials
from convdyno.errors import TrialFailed, UsageError
from convdyno.stage.batch_search import BatchSearch
from convdyno.trial import axes
from convdyno.trial.axes import MAX, Given

if TYPE_CHECKING:
    from convdyno.app.requests import Measurement
    from convdyno.launch.launcher import Launcher
    from convdyno.stage.progress import Narrator
    from convdyno.trial.spec import Trial


def trials_that_fit(there: Launcher, request: Measurement, narrator: Narrator) -> list[Trial]:
    """The cells that were asked for, the largest batch found by trying."""
    given = request.given
    if MAX not in _values("batch", given):
        return make_trials(there, given)
    if "strong" in _values("scaling", given):
        raise UsageError("--batch max is each device's own: it goes with --scaling weak")
    numbers = [size for size in _values("batch", given) if size != MAX]
    fixed = make_trials(there, given | {"batch": numbers}) if numbers else []
    sizable = make_trials(there, given | {"batch": None})
    there.check(sizable)
    found = [with_room(there, one, request, narrator) for one in sizable]
    return list(dict.fromkeys([*fixed, *found]))


def with_room(there: Launcher, trial: Trial, request: Measurement, narrator: Narrator) -> Trial:
    """A trial with the largest batch that fits; with one image where nothing does."""
    seconds = request.read("budget")
    narrator.tell(f"{trial.label}: looking for the largest batch, {seconds:g} s at most")
    search = BatchSearch(
        start=partial(there.start, rank_seconds=request.read("rank_timeout")),
        trial=trial,
        until=time.monotonic() + seconds,
        silence_seconds=request.read("watchdog"),
        tell=narrator.trying,
    )
    try:
        room = search.run()
    except TrialFailed:  # Whatever it is, the cell will say so.
        return trial
    finally:
        narrator.clear()
    (narrator.tell if room.batch else narrator.say)(f"{trial.label}: {room.sentence}")
    return trial.model_copy(update={"batch": room.batch or trial.accumulate})


def _values(name: str, given: Given) -> list[object]:
    axis = axes.find(name)
    return axis.values(given.get(name, axis.default))
