"""tf.train.Example: the record of an image and its label, with the keys that ImageNet sets use.

The message is declared in a descriptor pool of our own under our own names, so that TensorFlow can
be imported into the same process before or after.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from convdyno.data.optional_import import need
from convdyno.errors import BadData

ENCODED = "image/encoded"
LABEL = "image/class/label"
TEXT = "image/class/text"
SYNSET = "image/class/synset"
FILENAME = "image/filename"
PACKAGE = "convdyno.data"
BYTES, FLOAT, INT64, MESSAGE, STRING = 12, 2, 3, 11, 9
"""Field types, as numbered in descriptor.proto."""
ONE, MANY = 1, 3


@dataclass(frozen=True, slots=True)
class Picture:
    """What an Example says of an image."""

    encoded: bytes
    label: int
    """The number as it is stored."""
    text: str = ""
    filename: str = ""
    height: int = 0
    width: int = 0
    channels: int = 0
    format: str = ""


def parse_example(data: bytes, where: str) -> Picture:
    """The image and label of a serialised Example; keys that are not used are let pass."""
    features = _features(data, where)
    encoded: Any = features[ENCODED].bytes_list.value if ENCODED in features else []
    labels: Any = features[LABEL].int64_list.value if LABEL in features else []
    if len(encoded) != 1 or not encoded[0]:
        raise BadData(f"the record in {where} has no {ENCODED}")
    if len(labels) != 1:
        raise BadData(f"the record in {where} has no {LABEL}")
    return Picture(encoded[0], labels[0], _text(features, TEXT), _text(features, FILENAME))


def build_example(picture: Picture) -> bytes:
    """A serialised Example; the same bytes for the same picture."""
    example = _message()()
    feature = example.features.feature
    colours = "Grayscale" if picture.channels == 1 else "RGB"
    for key, number in (
        ("image/height", picture.height),
        ("image/width", picture.width),
        ("image/channels", picture.channels),
        (LABEL, picture.label),
    ):
        feature[key].int64_list.value.append(number)
    for key, content in (
        ("image/colorspace", colours.encode()),
        ("image/format", picture.format.encode()),
        (FILENAME, picture.filename.encode("utf-8", "surrogateescape")),
        (TEXT, picture.text.encode("utf-8", "surrogateescape")),
        (ENCODED, picture.encoded),
    ):
        feature[key].bytes_list.value.append(content)
    # Maps have no order of their own; deterministic means sorted keys.
    data: bytes = example.SerializeToString(deterministic=True)
    return data


def class_name(data: bytes) -> str:
    """The name of the class as an Example has it; empty where it has none."""
    features = _features(data, "a record")
    return _text(features, TEXT) or _text(features, SYNSET)


def find_label(buffer: Any, start: int, end: int, where: str) -> int:
    """The label of an Example between two offsets, without touching the image's bytes."""
    try:
        found = _find(buffer, start, end, LABEL)
        if found is not None:
            return _first_int(buffer, *found)
    except (IndexError, ValueError) as error:
        raise BadData(f"the record in {where} is no tf.train.Example") from error
    raise BadData(f"the record in {where} has no {LABEL}")


def find_filename(buffer: Any, start: int, end: int) -> str:
    """The file name in an Example between two offsets; empty where it has none."""
    try:
        found = _find(buffer, start, end, FILENAME)
        lists = _fields(buffer, *found, 1) if found is not None else []
        names = [text for _, low, high in lists for text in _fields(buffer, low, high, 1)]
    except (IndexError, ValueError):
        return ""
    raw = bytes(buffer[names[0][1] : names[0][2]]) if names else b""
    return raw.decode("utf-8", "surrogateescape")


def _features(data: bytes, where: str) -> Any:
    example = _message()()
    try:
        example.ParseFromString(data)
    except need("google.protobuf.message").DecodeError as error:
        raise BadData(f"the record in {where} is no tf.train.Example") from error
    return example.features.feature


def _text(features: Any, key: str) -> str:
    values: Any = features[key].bytes_list.value if key in features else []
    return values[0].decode("utf-8", "surrogateescape") if len(values) == 1 else ""


@functools.cache
def _message() -> Any:
    """The class of the message, declared once."""
    file = need("google.protobuf.descriptor_pb2").FileDescriptorProto(
        name="convdyno/data/example.proto", package=PACKAGE, syntax="proto3"
    )
    for name, kind in (("BytesList", BYTES), ("FloatList", FLOAT), ("Int64List", INT64)):
        _field(file.message_type.add(name=name), "value", 1, kind, MANY)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("BytesList", "FloatList", "Int64List"), 1):
        field = _field(feature, name.lower().replace("list", "_list"), number, MESSAGE, ONE, name)
        field.oneof_index = 0
    features = file.message_type.add(name="Features")
    _field(features, "feature", 1, MESSAGE, MANY, "Features.FeatureEntry")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    _field(entry, "key", 1, STRING, ONE)
    _field(entry, "value", 2, MESSAGE, ONE, "Feature")
    _field(file.message_type.add(name="Example"), "features", 1, MESSAGE, ONE, "Features")
    pool = need("google.protobuf.descriptor_pool").DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"{PACKAGE}.Example")
    return need("google.protobuf.message_factory").GetMessageClass(found)


def _field(message: Any, name: str, number: int, kind: int, label: int, of: str = "") -> Any:
    path = f".{PACKAGE}.{of}" if of else None
    return message.field.add(name=name, number=number, type=kind, label=label, type_name=path)


def _find(buffer: Any, start: int, end: int, key: str) -> tuple[int, int] | None:
    """Where the Feature of a key is: found by stepping over fields by their lengths."""
    for _, low, high in _fields(buffer, start, end, 1):
        for _, entry, entry_end in _fields(buffer, low, high, 1):
            parts = {number: (a, b) for number, a, b in _fields(buffer, entry, entry_end)}
            a, b = parts.get(1, (0, 0))
            if b - a == len(key) and buffer[a:b] == key.encode() and 2 in parts:
                return parts[2]
    return None


def _fields(
    buffer: Any, position: int, end: int, only: int | None = None
) -> list[tuple[int, int, int]]:
    """Number, start and end of each field with a length between two offsets."""
    found = []
    while position < end:
        tag, position = _varint(buffer, position, end)
        wire = tag & 7
        if wire == 2:
            length, position = _varint(buffer, position, end)
            if length > end - position:
                raise ValueError("a field is longer than what holds it")
            if only is None or tag >> 3 == only:
                found.append((tag >> 3, position, position + length))
            position += length
        elif wire == 0:
            _, position = _varint(buffer, position, end)
        elif wire in (1, 5):
            position += 8 if wire == 1 else 4
        else:
            raise ValueError("a field of an unknown kind")
    return found


def _first_int(buffer: Any, start: int, end: int) -> int:
    """The only number of a Feature with an Int64List, packed or not."""
    for number, low, high in _fields(buffer, start, end):
        if number == 3 and low < high:
            tag, low = _varint(buffer, low, high)
            if tag & 7 == 2:
                _, low = _varint(buffer, low, high)
            value, _ = _varint(buffer, low, high)
            return value - (1 << 64) if value >> 63 else value
    raise ValueError("no number")


def _varint(buffer: Any, position: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= end:
            raise ValueError("a number is cut off")
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, position
    raise ValueError("a number is too long")
