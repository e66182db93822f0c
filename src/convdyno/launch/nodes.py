"""The nodes file: which hosts there are, and over how many of them devices are spread.

Each line has two words, as in the older tool: the name that the hosts know each other by, and what
ssh calls the host from here; one word is both. Blank lines and what follows a # do not count, and
a word with spaces is put into quotes.

    # name   ssh alias
    node1    gpu-a
    node2    "gpu b"
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from convdyno.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:]+")
"""A host's name or address."""
LONGEST_NAME = 253
"""Characters, as in the DNS."""
LONGEST_LINE = 1000
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class NodeLine:
    """One host of a nodes file."""

    host: str
    """What the other hosts call it."""
    alias: str
    """What ssh calls it."""


@dataclass(frozen=True)
class Nodes:
    """The hosts of a nodes file, with so many devices each."""

    file: Path
    hosts: tuple[NodeLine, ...]
    per_node: int

    @property
    def devices(self) -> int:
        """How many there are in all."""
        return len(self.hosts) * self.per_node

    def counts(self, most: int | None = None) -> list[int]:
        """The numbers of devices to measure: 1, 2, 4 and so on up to the most, and that itself.

        Numbers that cannot be spread evenly are left out, except the most if it was asked for.
        """
        last = self.devices if most is None else most
        doubled = [1 << n for n in range(last.bit_length()) if 1 << n < last]
        even = [count for count in doubled if self._fewest(count)]
        if most is not None or self._fewest(last):
            self.spread(last)
            even.append(last)
        return even

    def spread(self, devices: int) -> tuple[NodeLine, ...]:
        """The first hosts of the file, as few as can share so many devices evenly."""
        if devices < 1:
            raise UsageError(f"{devices} devices were asked for: one is the least")
        if devices > self.devices:
            hosts = f"{len(self.hosts)} host{'s' if len(self.hosts) > 1 else ''}"
            raise UsageError(
                f"{devices} devices were asked for, and {self.file} has {hosts} with "
                f"{self.per_node} each (--per-node), {self.devices} in all"
            )
        fewest = self._fewest(devices)
        if not fewest:
            raise UsageError(
                f"{devices} devices cannot be spread evenly over the {len(self.hosts)} hosts of "
                f"{self.file} with at most {self.per_node} each (--per-node)"
            )
        return self.hosts[:fewest]

    def _fewest(self, devices: int) -> int:
        least = -(-devices // self.per_node)
        return next((n for n in range(least, len(self.hosts) + 1) if devices % n == 0), 0)


def read_nodes(file: Path, per_node: int = 1) -> Nodes:
    """The hosts of a nodes file; a sentence names the file and line that is wrong."""
    if per_node < 1:
        raise UsageError(f"--per-node cannot be {per_node}: one device is the least")
    try:
        with file.open("rb") as opened:
            read = opened.read(MOST_BYTES + 1)
        text = read.decode()
    except (OSError, UnicodeDecodeError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else "it is no text"
        raise UsageError(f"the nodes file {file} cannot be read: {reason}") from None
    if len(read) > MOST_BYTES:
        raise UsageError(f"the nodes file {file} has more than {MOST_BYTES >> 20} MB: is it one?")
    found: dict[str, NodeLine] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{file}, line {number}"
        if len(line) > LONGEST_LINE:
            raise UsageError(f"{where}: it has more than {LONGEST_LINE} characters")
        node = _node(line, where)
        if node is None:
            continue
        for kind, name in (("host", node.host), ("alias", node.alias)):
            if (first := lines.setdefault(f"{kind} {name}", number)) != number:
                raise UsageError(f"{where}: the {kind} {name!r} is on line {first} already")
        found[node.host] = node
    if not found:
        raise UsageError(
            f"the nodes file {file} names no host: put 'host ssh-alias' on each of its lines"
        )
    return Nodes(file, tuple(found.values()), per_node)


def _node(line: str, where: str) -> NodeLine | None:
    try:
        words = shlex.split(line, comments=True)
    except ValueError as wrong:
        why = str(wrong)
        raise UsageError(f"{where}: {line.strip()!r} has {why[:1].lower()}{why[1:]}") from None
    if not words:
        return None
    host, *rest = words
    alias = rest[0] if rest else host
    if len(rest) > 1 or not alias.strip():
        raise UsageError(f"{where}: {line.strip()!r} should be 'host ssh-alias'")
    if (longest := max(len(host), len(alias))) > LONGEST_NAME:
        raise UsageError(f"{where}: no host name has {longest} characters, as here")
    if not _NAME.fullmatch(host):
        raise UsageError(f"{where}: {host!r} is no host name")
    if alias.startswith("-") or not alias.isprintable():
        raise UsageError(f"{where}: {alias!r} is no ssh alias")
    return NodeLine(host, alias)
