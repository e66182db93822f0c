"""`dataset.json`, beside the images: class names in the order of their labels, so that nothing has
to be guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from convdyno.data.files import reason
from convdyno.errors import BadData
from convdyno.files import write_whole

DATASET_JSON = "dataset.json"


def read_dataset_json(folder: Path) -> tuple[int, tuple[str, ...]] | None:
    """The first label and the class names that a folder's `dataset.json` says; None without one."""
    path = folder / DATASET_JSON
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_bytes())
        first, classes = found["first_label"], found["classes"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadData(f"{path} does not say first_label and classes: {reason(error)}") from error
    named = isinstance(classes, list) and all(isinstance(name, str) for name in classes)
    if first not in (0, 1) or not named or not classes:
        raise BadData(f"{path} must have a first_label of 0 or 1 and a list of names in classes")
    return int(first), tuple(classes)


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a document; it is there whole or not at all."""
    write_whole(path, json.dumps(document, indent=1) + "\n")


def folder_name(name: str) -> str:
    """What a class's folder is called: its name, without what a file name cannot have."""
    return name.replace("/", "-").replace("\0", "").lstrip(".") or "unnamed"
