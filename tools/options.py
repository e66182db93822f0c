"""Write src/convdyno/app/options.py: the options of every use case, by name and type.

Requests and the table of axes say what options there are; editors and type checkers need them
written down. A test says when the file is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from convdyno.app import requests
from convdyno.trial.axes import AXES, Axis
from convdyno.trial.spec import Trial

FILE = Path(__file__).parents[1] / "src" / "convdyno" / "app" / "options.py"
HEAD = '''"""The options of every use case as Python has them; tools/options.py makes this file.

None, or leaving an option out, is its default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict
'''
COMMANDS = {
    "bench": "Bench", "gate": "Gate", "tune": "Tune", "sweep": "Sweep", "train": "Train",
    "eval": "Evaluate", "certify": "Certify", "compare": "Compare", "": "Report",
}  # fmt: skip
"""What axes call a command, and how its request begins."""
POSITIONAL = ("network", "file", "checkpoint", "results")
ALSO = ("network", "eval")
"""Where it is an option."""
NOT_HERE = (
    "axes", "command", "document", "display_seconds", "slurm", "slurm_module", "slurm_setup",
)  # fmt: skip
"""What is no option, or is for the command line alone."""
PLAIN = {int: "int | str", float: "float | str", bool: "bool", str: "str"}


SHARED = ("bench", "gate")
"""Commands of which many options are alike."""


def text() -> str:
    """The whole file."""
    found = {
        command: list(_options(command, getattr(requests, f"{begins}Request")))
        for command, begins in COMMANDS.items()
    }
    first, second = (found[command] for command in SHARED)
    both = [one for one in first if one in second]
    parts = [HEAD, _class("MeasuredOptions", "TypedDict", "What is measured, and how.", both)]
    for command, begins in COMMANDS.items():
        about = getattr(requests, f"{begins}Request").__doc__ or ""
        base = "MeasuredOptions" if command in SHARED else "TypedDict"
        own = [one for one in found[command] if command not in SHARED or one not in both]
        parts.append(_class(f"{begins}Options", base, about, own))
    return "\n\n".join(parts)


def _class(name: str, base: str, about: str, options: Sequence[tuple[str, str]]) -> str:
    lines = "".join(f"    {name}: {kind} | None\n" for name, kind in options)
    return f'class {name}({base}, total=False):\n    """{about}"""\n\n{lines}'


def _options(command: str, request: type[Any]) -> Iterator[tuple[str, str]]:
    hints = get_type_hints(request)
    known = [one.name for one in fields(request)]
    if "axes" in known:
        for axis in AXES:
            there = axis.in_command(command) is not None and axis.name not in known
            if there and axis.name not in NOT_HERE:
                yield axis.name, _of_axis(axis, several=command in ("bench", "gate"))
    for name in known:
        if name not in NOT_HERE and (name not in POSITIONAL or (name, command) == ALSO):
            yield name, _of_hint(hints[name])


def _of_axis(axis: Axis, several: bool) -> str:
    if axis.kind == "flag":
        return "bool"
    if axis.name == "image_size":
        return "int | str | tuple[int, int]"
    hint = float if axis.name == "rate" else Trial.model_fields[axis.of_trial].annotation
    kinds = {hint, *get_args(hint)} - {type(None)}
    plain = next((kind for kind in (int, float) if any(_is(one, kind) for one in kinds)), str)
    word = "bool | str" if "on" in axis.choices else PLAIN[plain]
    word = "str | Path" if axis.name == "data" else word
    return f"{word} | Sequence[{word}]" if several else word


def _is(hint: Any, kind: type) -> bool:
    return hint is kind or kind in get_args(hint)


def _of_hint(hint: Any) -> str:
    alone = not get_args(hint) or get_origin(hint) in (Sequence, Mapping)
    kinds = {hint} if alone else set(get_args(hint))
    if any(get_origin(kind) is Mapping for kind in kinds):
        return "Mapping[str, str]"
    if Path in kinds:
        return "str | Path"
    for kind in kinds:
        if get_origin(kind) is Sequence:
            return "str | Sequence[str]"
    return next(PLAIN[kind] for kind in (bool, int, float, str) if kind in kinds)


if __name__ == "__main__":
    if "--write" in sys.argv:
        FILE.write_text(text())
    else:
        print(text(), end="")
