"""Which trials are rivals: alike in all but one thing, so that one may be called the faster."""

from __future__ import annotations

from convdyno.trial.spec import Trial

NO_RIVALRY = frozenset({"rung", "devices", "scaling"})
"""Axes along which no cell is called faster or slower than another."""


def rivalry(a: Trial, b: Trial) -> str | None:
    """The one thing in which two trials differ, if one may be the better; None if not.

    Nothing is an empty word: the same trial twice. What a rung of the input costs is the ladder's
    to say; what more devices bring, and what their exchange costs, is the scaling curve's.
    """
    axes = a.differs_in(b)
    if len(axes) > 1 or NO_RIVALRY.intersection(axes):
        return None
    if axes == ["exchange"] and "independent" in (a.exchange, b.exchange):
        return None
    return "".join(axes)
