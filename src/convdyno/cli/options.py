"""Options from requests and axes: a command's words, turned into what it is asked for."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from convdyno.cli import complete
from convdyno.cli.help import RARE, heading, show_all
from convdyno.errors import UsageError
from convdyno.trial import parse
from convdyno.trial.axes import AXES, Axis, Own

if TYPE_CHECKING:
    from convdyno.report.console import Screen

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document.", rich_help_panel="Output")
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="While it runs, say only what goes wrong.", rich_help_panel="Output"
    ),
]
Out = Annotated[Path, typer.Option("--out", help="The results folder.")]
Networks = Annotated[
    str | None,
    typer.Argument(
        metavar="NETWORK",
        help="A name, or a comma list of names.",
        autocompletion=complete.networks,
    ),
]
Network = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The same; also package.module:function.",
        rich_help_panel="What to run" + RARE,
    ),
]  # fmt: skip
HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all", help="Show all options, in groups, and exit.", is_eager=True,
        callback=show_all, rich_help_panel="Output",
    ),
]  # fmt: skip
Folders = Annotated[
    list[Path] | None,
    typer.Argument(metavar="RESULTS", help="Folders of records, and of runs of training."),
]
COMPLETES = {
    "engine": complete.engines, "recipe": complete.recipes, "data": complete.data,
    "by": complete.axes,
}  # fmt: skip
METAVARS = {str: "VALUE", list[str]: "VALUE", Path: "PATH"}
"""What stands for the value of an option in help."""
LAST = (
    "watchdog", "rank_timeout", "slurm_module", "slurm_setup", "preset", "labels", "out", "force",
)  # fmt: skip
"""Options that help names after the others."""


def group(help: str, examples: str) -> typer.Typer:
    """A command that has commands of its own."""
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None, epilog=examples)


def new_screen() -> Screen:
    """The terminal, for tables and what is like them."""
    from convdyno.report.console import Screen

    return Screen()


def echo_json(document: dict[str, Any]) -> None:
    """Print one JSON document."""
    from convdyno.report.bench_json import to_json

    typer.echo(to_json(document))


def asks(request: type[Any], command: str = "") -> Callable[[Callable[..., None]], Any]:
    """Let a command take a request: its options are the request's fields, and its axes.

    The command's own parameters are arguments if they have a default of `...`, and further options
    otherwise; what is a field of the request goes into it.
    """

    def decorate(does: Callable[..., None]) -> Callable[..., None]:
        own = [
            one
            for one in inspect.signature(does, eval_str=True).parameters.values()
            if one.name != "request"
        ]
        mine = {one.name for one in own}
        known = {one.name: one for one in fields(request)}
        hints = get_type_hints(request)
        there = [(axis, said) for axis in AXES if (said := axis.in_command(command)) is not None]
        there = [(axis, said) for axis, said in there if axis.name not in mine]
        asked = [one for one in known.values() if "help" in one.metadata and one.name not in mine]
        asked.sort(key=lambda one: LAST.index(one.name) if one.name in LAST else -1)
        special = request.__annotations__.keys() - set(LAST)
        parameters = [
            inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
            *(one for one in own if one.name in known or one.name == "networks"),
            *(_field(one, hints[one.name]) for one in asked if one.name in special),
            *(made for axis, said in there for made in _axis(axis, said, command)),
            *(_field(one, hints[one.name]) for one in asked if one.name not in special),
            *(one for one in own if one.name not in known and one.name != "networks"),
        ]
        if command:  # Only these have more options than one wants to see.
            kind = inspect.Parameter.KEYWORD_ONLY
            all_ = inspect.Parameter("help_all", kind, default=False, annotation=HelpAll)
            parameters.append(all_)

        @wraps(does)
        def run(ctx: typer.Context, **values: Any) -> None:
            values.pop("help_all", None)
            words = {name: values[name] for name in mine}
            given = _given(ctx, [axis for axis, _ in there], values)
            if "networks" in mine:
                positional, option = values.pop("networks"), values["network"]
                if positional and option:
                    said = f"{positional!r} and --network {option!r}"
                    raise UsageError(f"the network is given twice: {said}")
                values["network"] = positional or option
            wanted = {name: values.pop(name) for name in known.keys() & values.keys()}
            if "labels" in wanted:
                wanted["labels"] = parse.labels(wanted["labels"] or ())
            for name, value in wanted.items():
                if value is None and isinstance(known[name].default, tuple):
                    wanted[name] = known[name].default
            if "axes" in known:
                wanted["axes"] = given
            does(request(command=shlex.join(["convdyno", *sys.argv[1:]]), **wanted), **words)

        keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in keyword}
        return run

    return decorate


def _given(ctx: typer.Context, there: Iterable[Axis], values: dict[str, Any]) -> dict[str, Any]:
    """The axes that were given, taken out of all values: what is not given has no say."""
    found = {}
    for axis in there:
        for name in filter(None, (axis.older, axis.name)):
            value, source = values.pop(name), ctx.get_parameter_source(name)
            if source is not None and source.name != "DEFAULT":
                found[axis.name] = value
    return found


def _axis(axis: Axis, said: Own, command: str) -> Iterable[inspect.Parameter]:
    kind: Any = {"list": str | None, "flag": bool, "again": list[str] | None}[axis.kind]
    offered = complete.one_of(axis.choices) if axis.choices else None
    yield _parameter(
        axis.name, kind, said.default, said.help, offered=offered,
        rich_help_panel=heading(axis.group, command in axis.usual),
    )  # fmt: skip
    if axis.older:
        yield _parameter(axis.older, kind, None, "", hidden=True)


def _field(one: Field[Any], hint: Any) -> inspect.Parameter:
    several = one.default == () or one.default_factory is dict
    default = None if several else one.default
    kinds = get_args(hint) or (hint,)
    kind: Any = list[str] if several else next((k for k in (bool, Path) if k in kinds), str)
    metavar = "N" if int in kinds else "X" if float in kinds and str not in kinds else None
    return _parameter(
        one.name, kind if default is not None else kind | None,
        str(default) if isinstance(default, int | float) and kind is str else default,
        one.metadata["help"], metavar=metavar,
        called=one.metadata.get("name", ""), also=one.metadata.get("also", ""),
        rich_help_panel=heading(one.metadata.get("group", ""), one.metadata.get("usual", False)),
    )  # fmt: skip


def _parameter(
    name: str, kind: Any, default: Any, help: str, called: str = "", also: str = "",
    offered: complete.Offer | None = None, metavar: str | None = None, **more: Any,
) -> inspect.Parameter:  # fmt: skip
    named = called or also or kind is bool
    words = [f"--{(called or name).replace('_', '-')}", *filter(None, [also])] if named else []
    kinds = (kind, *get_args(kind))
    metavar = metavar or next((word for one, word in METAVARS.items() if one in kinds), None)
    option = typer.Option(
        *words, help=help, metavar=metavar, autocompletion=COMPLETES.get(name, offered), **more
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )
