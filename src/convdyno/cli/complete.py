"""What the shell offers when a word is begun: names, and the values of options."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Offer = Callable[[str], list[str]]


def networks(incomplete: str) -> list[str]:
    """Networks of the zoo, also behind a comma."""
    from convdyno.app.catalogue import network_names

    return _behind_comma(incomplete, network_names())


def engines(incomplete: str) -> list[str]:
    """Engines, also behind a comma; `all` is every installed one."""
    from convdyno.app.catalogue import engine_names

    return _behind_comma(incomplete, [*engine_names(), "all"])


def recipes(incomplete: str) -> list[str]:
    """Recipes of training."""
    from convdyno.trial.recipes import RECIPES

    return _behind_comma(incomplete, RECIPES)


def data(incomplete: str) -> list[str]:
    """Data sets that have a name."""
    from convdyno.app.catalogue import data_names

    return _behind_comma(incomplete, data_names())


def axes(incomplete: str) -> list[str]:
    """Along what cells can be compared."""
    from convdyno.report.comparisons import AXES

    return _behind_comma(incomplete, AXES)


def one_of(words: Iterable[str]) -> Offer:
    """The few words that an option takes."""
    return lambda incomplete: _behind_comma(incomplete, words)


def _behind_comma(incomplete: str, names: Iterable[str]) -> list[str]:
    before, comma, begun = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]
