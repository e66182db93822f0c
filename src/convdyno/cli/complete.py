"""What the shell offers when a word is begun: names of networks, engines and recipes."""

from __future__ import annotations

from collections.abc import Iterable


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


def _behind_comma(incomplete: str, names: Iterable[str]) -> list[str]:
    before, comma, begun = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]
