"""Help: the usual options with `--help`, all of them under headings with `--help-all`.

What stands where is said where an option is declared: in the table of axes and in the requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import typer
from typer.core import TyperCommand

from convdyno.trial.axes import Group

RARE = " (rare)"
"""What is added to the heading of an option that only the whole help has."""
ALL = "convdyno: all options"
COLUMN = 25
"""Where summaries begin, behind the widest names of options."""


def examples(*lines: str, after: str = "") -> str:
    """The end of a command's help: lines to be copied, and what else is to be said."""
    shown = "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
    return f"{shown}\n\n\b\n{after}" if after else shown


def heading(group: str, usual: bool) -> str | None:
    """The heading of an option as `typer.Option(rich_help_panel=...)` takes it."""
    return group + RARE * (not usual) if group else None


def show_all(ctx: typer.Context, wanted: bool) -> None:
    """Print the whole help and end, if it is wanted."""
    if wanted:
        ctx.meta[ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


class GroupedCommand(TyperCommand):
    """A command with more options than one wants to see at once."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The usual options, or all of them under their headings."""
        everything = ctx.meta.get(ALL, False)
        arguments: list[tuple[str, str]] = []
        groups: dict[str, list[tuple[str, str]]] = {
            name: [] for name in ("Usual options", *get_args(Group))
        }
        rare = 0
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            record = (record[0], _brief(record[1]))
            panel = getattr(parameter, "rich_help_panel", None) or "Output"
            if parameter.param_type_name == "argument":
                arguments.append(record)
            elif everything:
                groups[panel.removesuffix(RARE)].append(record)
            elif panel.endswith(RARE):
                rare += 1
            else:
                groups["Usual options"].append(record)
        _write(formatter, {"Arguments": arguments} | groups)
        if rare:
            formatter.write(f"\n{rare} more options: {ctx.command_path} --help-all\n")


def _brief(text: str) -> str:
    """A summary with just its default in brackets."""
    text = re.sub(r"  \[default: ([^;\]]*)(; x>=[0-9]+)?\]$", r" [\1]", text)
    return re.sub(r"  \[x>=[0-9]+\]$", "", text)


def _write(formatter: Any, sections: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    for name, rows in sections.items():
        if rows:
            with formatter.section(name):
                formatter.write_dl([(f"{one:{COLUMN}}", text) for one, text in rows], COLUMN, 1)
