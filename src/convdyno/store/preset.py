"""Presets: settings that were found to be fast for one network and engine, as small TOML files.

They are in `presets/` of a results folder, or of the user's configuration folder, where they serve
every project.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from convdyno.errors import BadStore, UnknownName, UsageError
from convdyno.files import read_plain
from convdyno.store.folder import write_whole
from convdyno.store.record import Frozen
from convdyno.trial.choices import Layout, Mode, Precision, Switch

FOLDER = "presets"


class Settings(Frozen):
    """What a preset sets; None leaves it to the default."""

    batch: int | None = None
    layout: Layout | None = None
    compile: Switch | None = None
    threads: int | None = None
    bucket_mb: float | None = None


class Gain(Frozen):
    """What the settings brought where they were found."""

    ratio: float
    """Images per second over those of the default settings, from rounds after the search."""
    low: float
    high: float
    rounds: int


class Preset(Frozen):
    """Settings with a name, what they are for and where they were found."""

    schema_version: Literal[1] = 1
    name: str
    network: str
    engine: str
    mode: Mode = "train"
    precision: Precision = "fp32"
    devices: int = 1
    created: str = ""
    convdyno: str = ""
    command: str = ""
    host: str = ""
    machine: str = ""
    """What the machine is, in words."""
    versions: dict[str, str] = Field(default={})
    settings: Settings
    gain: Gain | None = None
    """None where nothing was found to be faster than the default settings."""

    def write(self, folder: Path) -> Path:
        """Keep it in place of an earlier one of that name; a kill leaves the old or the new."""
        return write_whole(folder / FOLDER / f"{check_name(self.name)}.toml", self.to_toml())

    def to_toml(self) -> str:
        """As it is in its file."""
        data = self.model_dump(mode="json", exclude_none=True)
        tables = {name: data.pop(name) for name in [*data] if isinstance(data[name], dict)}
        return _lines(data) + "".join(
            f"\n[{name}]\n{_lines(table)}" for name, table in tables.items() if table
        )


def check_name(name: str) -> str:
    """A name that can be a file's."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise UsageError(f"a preset's name has letters, digits, . _ and -, unlike {name!r}")
    return name


def own_folder() -> Path:
    """The user's configuration folder."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "convdyno"


def find_preset(wanted: str, results: Path) -> Preset:
    """The preset of a name, in the results folder or in the user's; or the one in a file."""
    if wanted.endswith(".toml") or os.sep in wanted:
        return read_preset(Path(wanted))
    folders = [results / FOLDER, own_folder() / FOLDER]
    for folder in folders:
        path = folder / f"{check_name(wanted)}.toml"
        if path.is_file():
            return read_preset(path)
    known = sorted({path.stem for folder in folders for path in folder.glob("*.toml")})
    if not known:
        raise BadStore(
            f"there is no preset {wanted!r}, nor any other in {folders[0]} and {folders[1]}; "
            "`convdyno tune` makes them"
        )
    raise UnknownName("preset", wanted, known)


def read_preset(path: Path) -> Preset:
    """A preset from its file; `BadStore` says what is wrong with it."""
    try:
        return Preset.model_validate(tomllib.loads(read_plain(path).decode()))
    except OSError as wrong:
        raise BadStore(f"{path} cannot be read: {wrong.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise BadStore(f"{path} is not TOML: {wrong}") from None
    except ValidationError as wrong:
        error = wrong.errors()[0]
        where = ".".join(map(str, error["loc"]))
        raise BadStore(f"{path} is no preset: {where}: {error['msg']}") from None


def _lines(values: dict[str, Any]) -> str:
    # Strings, numbers and booleans of JSON are those of TOML but for one character.
    return "".join(f"{_key(key)} = {_text(value)}\n" for key, value in values.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
