"""On which line of a TOML text each key is; the standard library's reader does not tell."""

from __future__ import annotations

import re

Path = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[|\[)\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_\"'-]+)*)\s*=")
_INNER = re.compile(r"[{,]\s*([A-Za-z0-9_.-]+)\s*=")


class Lines:
    """The lines of the keys of a text that is TOML."""

    def __init__(self, text: str) -> None:
        self._at: dict[Path, int] = {}
        table: Path = ()
        latest: Path = ()
        counts: dict[Path, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.match(line):
                table = _parts(header[2])
                if header[1] == "[[":
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, counts[table])
                self._note(table, number)
                latest = table
                continue
            rest = line
            if key := _KEY.match(line):
                latest = (*table, *_parts(key[1]))
                self._note(latest, number)
                rest = line[key.end() :]
            for inner in _INNER.finditer(rest.partition("#")[0]):
                self._note((*latest, *_parts(inner[1])), number)

    def of(self, *path: str | int) -> int | None:
        """The line of a key, named by the tables and places that lead to it; or of its table."""
        while path:
            if path in self._at:
                return self._at[path]
            path = path[:-1]
        return None

    def _note(self, path: Path, number: int) -> None:
        for length in range(1, len(path) + 1):
            self._at.setdefault(path[:length], number)


def _parts(dotted: str) -> Path:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
