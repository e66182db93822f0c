"""`--batch max`: cells whose batch is the largest that memory holds."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from convdyno.cli import parse
from convdyno.errors import TrialFailed, UsageError

if TYPE_CHECKING:
    from convdyno.launch.crew import Launcher
    from convdyno.trial.spec import Trial

MAX = "max"


def trials_that_fit(there: Launcher, given: dict[str, Any]) -> list[Trial]:
    """The cells that the options make, `--batch max` found by trying."""
    from convdyno.cli.cells import make_trials

    batches = parse.several(given["batch"], str) if given["batch"] is not None else []
    if MAX not in batches:
        return make_trials(there, given)
    if "strong" in parse.several(given["scaling"], str):
        raise UsageError("--batch max is each device's own: it goes with --scaling weak")
    numbers = [word for word in batches if word != MAX]
    fixed = make_trials(there, given | {"batch": ",".join(numbers)}) if numbers else []
    sizable = make_trials(there, given | {"batch": None})
    there.check(sizable)
    return list(dict.fromkeys([*fixed, *(with_room(there, one, given) for one in sizable)]))


def with_room(there: Launcher, trial: Trial, given: dict[str, Any]) -> Trial:
    """A trial with the largest batch that fits; with one image where nothing does."""
    from convdyno.stage.batch_search import BatchSearch
    from convdyno.stage.progress import Narrator

    seconds = parse.duration("--budget")(given["budget"])
    narrator, quiet = Narrator(), given["as_json"]
    if not quiet:
        narrator.say(f"{trial.label}: looking for the largest batch, {seconds:g} s at most")
    search = BatchSearch(
        start=partial(
            there.start, rank_seconds=parse.duration("--rank-timeout")(given["rank_timeout"])
        ),
        trial=trial,
        until=time.monotonic() + seconds,
        silence_seconds=parse.duration("--watchdog")(given["watchdog"]),
        tell=narrator.trying,
    )
    try:
        room = search.run()
    except TrialFailed:  # Whatever it is, the cell will say so.
        return trial
    finally:
        narrator.clear()
    if not quiet or not room.batch:
        narrator.say(f"{trial.label}: {room.sentence}")
    return trial.model_copy(update={"batch": room.batch or trial.accumulate})
