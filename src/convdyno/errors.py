"""Everything that can go wrong and that a user can act on.

ConvdynoError                 one clear sentence; carries the exit code
├── UsageError (2)            what was given is not possible
│   ├── UnknownName           no such network, engine, precision, ...; names the nearest
│   ├── NotInstalled          an optional part is missing; names the install command
│   ├── BadBlueprint          a network that cannot be built; names the node
│   ├── BadStore              a results folder or record that cannot be used
│   ├── BadSweep              a file of a sweep that cannot be used; names the line
│   ├── BadWeights            a file of weights that is broken or another network's
│   ├── BadData               a data set that is damaged, or a path that is none
│   ├── HostsNotReady         hosts that trials cannot run on; a sentence for each
│   └── Refused               an engine cannot run this trial; says what it can
├── Interrupted (128 + n)     a signal asked for an early end; says what was kept
├── LossLost (5)              the loss is no longer a number, or has exploded
├── NothingMeasured (4)       the budget ended before the first block
└── TrialFailed (5)           a worker crashed, hung, ran out of memory or lost its loss to NaN

Stopped                       what a signal raises where it arrives, as Ctrl-C does
"""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable

MOST_NAMES = 40
"""How many names a sentence lists, where another place has them all."""


class ConvdynoError(Exception):
    """A problem that is told to the user in one sentence, without a traceback."""

    exit_code = 2


class UsageError(ConvdynoError):
    """What was asked for is not possible as it was given."""


class UnknownName(UsageError):
    """A name that nothing has; the sentence suggests the nearest."""

    def __init__(self, kind: str, given: str, known: Iterable[str], see: str = "") -> None:
        names = list(known)
        near = closest(given, names)
        listed = "" if see and len(names) > MOST_NAMES else f"There is: {', '.join(names)}."
        hint = f"Did you mean {near!r}?" if near else listed
        super().__init__(" ".join(filter(None, [f"no {kind} is called {given!r}.", hint, see])))


class NotInstalled(UsageError):
    """An optional part that is not installed."""


class BadBlueprint(UsageError):
    """A network description that breaks a rule."""


class BadStore(UsageError):
    """A results folder or a record that cannot be read or written."""


class BadSweep(UsageError):
    """A file of a sweep that is no TOML, or says what nothing can do."""


class BadWeights(UsageError):
    """A file of weights that cannot be read, written or used for this network."""


class BadData(UsageError):
    """A data set that is damaged, or something that is no data set; names file and offset."""


class HostsNotReady(UsageError):
    """Hosts that trials cannot run on."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self.sentences = list(sentences)
        super().__init__("\n".join(self.sentences))


class Refused(UsageError):
    """A trial that an engine cannot run."""


class LossLost(ConvdynoError):
    """The loss is no longer a number, or no longer means anything."""

    exit_code = 5


class Stopped(KeyboardInterrupt):
    """Somebody asked for an early end; says who: the name of a signal."""


class Interrupted(ConvdynoError):
    """What was asked for ended early, because a signal wanted it to."""

    def __init__(self, number: int, kept: str) -> None:
        who = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        super().__init__(f"stopped by {who}: {kept}")
        self.exit_code = 128 + number


class NothingMeasured(ConvdynoError):
    """The budget ended before anything was measured."""

    exit_code = 4


class TrialFailed(ConvdynoError):
    """A trial that ended without a number; the status is the record's."""

    exit_code = 5

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def signal_of(end: KeyboardInterrupt) -> int:
    """The signal that asked for an early end; Ctrl-C says nothing of itself."""
    return signal.Signals[str(end) or "SIGINT"].value


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like the given one, or None when nothing is near."""
    by_lower = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None
