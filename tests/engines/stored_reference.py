"""The reference, which is not asked twice: what it said is kept in files between runs.

They are kept by everything that they depend on: what was asked, the sources of every module that
the reference and the prover import, and the versions of Python and NumPy.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import platform
import shutil
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from convdyno.launch.local import LocalWorker
from convdyno.run import worker
from convdyno.stage.certify import ONE_THREAD

BEGIN = ("convdyno.run.asked", "convdyno.engines.reference", "convdyno.engines.reference_question")


class StoredReference:
    """The reference's worker as an examination knows it, started when something new is asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / version()
        self._worker: LocalWorker | None = None

    def ask(
        self, do: str, *, silence: float, to: str, question: str, **more: Any
    ) -> dict[str, Any]:
        """What the worker answers; what it says follows from everything but the files' names."""
        asked = {name: value for name, value in more.items() if name != "whole"}
        key = sha256(json.dumps([do, asked], sort_keys=True).encode()).hexdigest()
        files = [self._folder / f"{key}.{kind}" for kind in ("safetensors", "question", "json")]
        *arrays, answer = files
        written = [to, question] if do == "pose" else [to]
        if answer.exists():
            for kept, wanted in zip(arrays, written, strict=False):
                shutil.copyfile(kept, wanted)
            return dict(json.loads(answer.read_text()))
        if self._worker is None:
            self._worker = LocalWorker(ONE_THREAD)
        said = self._worker.ask(do, silence=silence, to=to, question=question, **more)
        self._folder.mkdir(parents=True, exist_ok=True)
        part = answer.with_suffix(".part")
        for kept, wanted in zip(arrays, written, strict=False):
            shutil.copyfile(wanted, part)
            part.replace(kept)
        part.write_text(json.dumps(said))
        part.replace(answer)
        return said

    def end(self) -> None:
        """End the worker, if there is one."""
        if self._worker is not None:
            self._worker.end()


@cache
def version() -> str:
    """The digest of all that decides what the reference says."""
    found = sha256(f"{platform.python_version()} {np.__version__}".encode())
    texts = sources(BEGIN) | {"worker": Path(worker.__file__).read_text()}
    for module, text in sorted(texts.items()):
        found.update(f"{module}\n{text}".encode())
    return found.hexdigest()[:16]


def sources(begin: tuple[str, ...]) -> dict[str, str]:
    """The text of each module of convdyno that these import, also later or by way of others."""
    found: dict[str, str] = {}
    waiting = list(begin)
    while waiting:
        name = waiting.pop()
        if name in found or not name.startswith("convdyno."):
            continue
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:  # a name within a module
            continue
        if spec and spec.origin:
            found[name] = Path(spec.origin).read_text()
            waiting += [name.rpartition(".")[0], *_imported(ast.parse(found[name]))]
    return found


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
