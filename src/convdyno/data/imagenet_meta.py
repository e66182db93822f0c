"""ImageNet's meta.mat: which synset has which number. As much of MATLAB's version 5 files as that
takes: one array of structs, of which numbers and text are read."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from convdyno.errors import BadData

HEADER = 128
MATRIX, COMPRESSED = 14, 15
STRUCT_CLASS = 2
NUMBERS = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "f", 9: "d", 12: "q", 13: "Q"}
"""Element types of numbers, and their codes for `struct`."""
UTF8 = 16
MOST = 64 << 20
"""Bytes that a compressed element may become; the real one has about two million."""

Element = tuple[int, bytes]


def read_synsets(content: bytes, where: str) -> dict[int, str]:
    """Synset by number, from a meta.mat."""
    try:
        for kind, data in _elements(content[HEADER:]):
            if kind == COMPRESSED:
                kind, data = next(_elements(zlib.decompressobj().decompress(data, MOST)))
            found = _synsets(data) if kind == MATRIX else {}
            if found:
                return found
    except (struct.error, zlib.error, ValueError, StopIteration, IndexError) as error:
        raise BadData(f"{where} is no meta.mat of ImageNet's development kit") from error
    raise BadData(f"{where} names no synsets")


def _elements(data: bytes) -> Iterator[Element]:
    position = 0
    while position + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, position)
        start, after = position + 8, position + 8 + size
        if kind >> 16:
            # Four bytes or fewer stand in the tag itself.
            kind, size, start, after = kind & 0xFFFF, kind >> 16, position + 4, position + 8
        elif kind != COMPRESSED:
            after = start + (size + 7) // 8 * 8
        if start + size > len(data):
            raise ValueError("an element is longer than what holds it")
        yield kind, data[start : start + size]
        position = after


def _synsets(matrix: bytes) -> dict[int, str]:
    parts = _elements(matrix)
    if next(parts)[1][0] != STRUCT_CLASS:
        return {}
    next(parts), next(parts)
    width = int(_values(next(parts))[0])
    names = next(parts)[1]
    if width < 1:
        raise ValueError("fields without names")
    fields = [names[at : at + width].split(b"\0")[0] for at in range(0, len(names), width)]
    if b"ILSVRC2012_ID" not in fields or b"WNID" not in fields:
        return {}
    found = {}
    cells = [data for _, data in parts]
    for row in range(len(cells) // len(fields)):
        named = dict(zip(fields, cells[row * len(fields) :], strict=False))
        number = _values(_content(named[b"ILSVRC2012_ID"]))[0]
        found[int(number)] = _text(_content(named[b"WNID"]))
    return found


def _content(matrix: bytes) -> Element:
    parts = _elements(matrix)
    next(parts), next(parts), next(parts)
    return next(parts)


def _values(element: Element) -> tuple[float, ...]:
    kind, data = element
    code = NUMBERS.get(kind)
    if code is None:
        raise ValueError("no numbers")
    return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


def _text(element: Element) -> str:
    if element[0] == UTF8:
        return element[1].decode("utf-8", "replace")
    return "".join(chr(int(value)) for value in _values(element))
