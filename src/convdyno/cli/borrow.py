"""Options of `convdyno bench` for commands that measure as it does: written once, there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from convdyno.cli.bench import bench

F = TypeVar("F", bound=Callable[..., None])

ELSEWHERE = frozenset(
    {
        "slurm", "slurm_module", "slurm_setup", "detach", "nodes", "per_node", "max_devices",
        "remote_dir", "python", "ssh_config", "ladder", "stage_from", "style", "preset",
    }
)  # fmt: skip
"""Options about where cells run and how they are shown, which only `bench` has."""


def bench_options(without: Collection[str] = ()) -> Callable[[F], F]:
    """Give a command the options of `bench` after its own, but for some.

    The command takes them as `**given`. An option of its own replaces one of the same name.
    """

    def decorate(command: F) -> F:
        own = inspect.signature(command, eval_str=True)
        mine = {n: p for n, p in own.parameters.items() if p.kind is not p.VAR_KEYWORD}
        lent = {
            name: parameter
            for name, parameter in inspect.signature(bench, eval_str=True).parameters.items()
            if name not in ELSEWHERE and name not in without
        }
        every = list((mine | {n: p for n, p in lent.items() if n not in mine}).values())
        keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in every]
        command.__signature__ = own.replace(parameters=keyword)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in keyword}
        return command

    return decorate


def as_bench_has_them(given: dict[str, Any]) -> dict[str, Any]:
    """All options of `bench`: those given, and the others as they are by default."""
    others = {name: p.default for name, p in inspect.signature(bench).parameters.items()}
    words = others | {name: value for name, value in given.items() if name in others}
    return words | {"compile": words["compiled"]}
