"""Weights in a file that every engine can read: safetensors, canonical names and layouts, float32.

The header says which network they belong to. Files come from anywhere, so nothing in them is
believed before it is checked, and whatever is wrong is one sentence.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from convdyno import __version__
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Norm, Shape
from convdyno.blueprint.weights import Array, Weights
from convdyno.errors import BadWeights
from convdyno.files import whole_path

FORMAT = 1
HEADER_LIMIT = 100_000_000
"""Bytes; the same limit as in the safetensors library."""
LARGEST = 1_000_000
"""Of an image's side, the classes and the width that a header may claim."""
LENGTH = struct.Struct("<Q")
ITEM_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip
STATE = "state/"
"""What training remembers has names that begin so; it is no part of the weights."""
CANONICAL = ("F32", "F16", "BF16")
"""What a weight may be stored as; the halves are widened to float32 when they are read."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """What the header says of one array."""

    dtype: str
    shape: Shape
    start: int
    """The first byte in the file."""


@dataclass(frozen=True, slots=True)
class WeightHeader:
    """The checked beginning of a safetensors file."""

    path: Path
    tensors: dict[str, Tensor]
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def canonical(self) -> bool:
        """Whether `save_weights` wrote the file."""
        return "convdyno_format" in self.metadata

    def origin(self) -> Origin:
        """The network that canonical weights belong to."""
        if not self.canonical:
            raise BadWeights(
                f"{self.path} has no convdyno header: it is some other tool's safetensors file; "
                "`convdyno weights import` may know it"
            )
        if self.metadata["convdyno_format"] != str(FORMAT):
            raise BadWeights(
                f"{self.path} has the weight format {self.metadata['convdyno_format'][:20]!r} and "
                f"this version reads {FORMAT}; update convdyno"
            )
        return origin(self.path, self.metadata)


@dataclass(frozen=True, slots=True)
class Origin:
    """What is needed to build the network of a file again."""

    network: str
    digest: str
    image_size: tuple[int, int]
    classes: int
    width: float
    auxiliary: bool
    version: str
    """Of the convdyno that wrote the file."""
    note: str


def save_weights(
    path: Path, blueprint: Blueprint, weights: Weights, *, width: float = 1.0, note: str = ""
) -> None:
    """Write all weights of a network; `width` is the one that the network was built with."""
    if more := sorted(weights.keys() - blueprint.weights.keys()):
        raise BadWeights(f"{blueprint.name} has no weight {more[0]!r}, so it cannot be saved")
    arrays = {}
    for name, shape in blueprint.weights.items():
        if name not in weights:
            raise BadWeights(f"{blueprint.name} cannot be saved without its weight {name!r}")
        array = np.ascontiguousarray(weights[name], np.float32)
        if array.shape != shape:
            raise BadWeights(
                f"{blueprint.name} cannot be saved: {name!r} has the shape {array.shape}, "
                f"not {shape}"
            )
        arrays[name] = array
    check_values(f"{blueprint.name} cannot be saved", blueprint, arrays)
    write_tensors(path, arrays, describe(blueprint, width, note))


def describe(blueprint: Blueprint, width: float = 1.0, note: str = "") -> dict[str, str]:
    """The header's words on a network."""
    height, across, _ = blueprint.image
    return {
        "convdyno_format": str(FORMAT),
        "convdyno": __version__,
        "network": blueprint.name,
        "digest": blueprint.digest,
        "image_size": f"{height}x{across}",
        "classes": str(blueprint.classes),
        "width": repr(float(width)),
        "auxiliary": "yes" if len(blueprint.heads) > 1 else "no",
        "note": "".join(letter if letter.isprintable() else "?" for letter in note),
    }


def write_tensors(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: dict[str, str]) -> None:
    """Put arrays in place of an earlier file, whole or not at all."""
    try:
        with whole_path(path) as part:
            save_file(dict(arrays), part, metadata)
    except (OSError, SafetensorError) as wrong:
        reason = getattr(wrong, "strerror", None) or _line(wrong)
        raise BadWeights(f"{path} cannot be written: {reason}") from None


def read_header(path: Path) -> WeightHeader:
    """The header of a safetensors file, every number in it checked against the file's size."""
    with _reading(path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < LENGTH.size:
            raise BadWeights(f"{path} is not a safetensors file: it has only {size} bytes")
        (length,) = LENGTH.unpack(file.read(LENGTH.size))
        if length > min(HEADER_LIMIT, size - LENGTH.size):
            raise BadWeights(
                f"{path} is not a safetensors file, or only the beginning of one: "
                f"it claims a header of {length} bytes and has {size} bytes in all"
            )
        text = file.read(length)
    return _parse(path, text, size)


def load_weights(path: Path, blueprint: Blueprint) -> Weights:
    """The weights of a network; refuses whatever is not exactly this network's."""
    header = read_header(path)
    found = header.origin()
    if found.digest != blueprint.digest:
        raise BadWeights(
            f"{path} has the weights of {found.network} (digest {found.digest[:12]}), "
            f"not those of {blueprint.name} (digest {blueprint.digest[:12]}): "
            "the networks differ in a layer, the image size, the classes or the width"
        )
    if missing := [name for name in blueprint.weights if name not in header.tensors]:
        raise BadWeights(f"{path} lacks the weight {missing[0]!r} of {blueprint.name}")
    names = [name for name in header.tensors if not name.startswith(STATE)]
    if more := [name for name in names if name not in blueprint.weights]:
        raise BadWeights(f"{path} has {_quoted(more[0])}, which is no weight of {blueprint.name}")
    for name, shape in blueprint.weights.items():
        tensor = header.tensors[name]
        if tensor.dtype not in CANONICAL:
            raise BadWeights(
                f"{path} has {name!r} as {tensor.dtype}; weights are one of {', '.join(CANONICAL)}"
            )
        if tensor.shape != shape:
            raise BadWeights(f"{path} has {name!r} in the shape {tensor.shape}, not {shape}")
    weights = read_tensors(header, list(blueprint.weights))
    check_values(f"{path} cannot be used", blueprint, weights)
    return weights


def read_tensors(header: WeightHeader, names: list[str]) -> Weights:
    """Some arrays of a file as float32."""
    arrays = {}
    with _reading(header.path), safe_open(header.path, "np") as file:
        for name in names:
            tensor = header.tensors[name]
            if tensor.dtype == "BF16":
                arrays[name] = _bfloat16(header.path, tensor)
            else:
                # A float64 beyond float32 becomes infinite, which `check_values` refuses.
                with np.errstate(over="ignore"):
                    arrays[name] = np.asarray(file.get_tensor(name)).astype(np.float32, copy=False)
    return arrays


def read_state(header: WeightHeader) -> dict[str, NDArray[Any]]:
    """What training remembered, each array as it was written."""
    with _reading(header.path), safe_open(header.path, "np") as file:
        return {
            name.removeprefix(STATE): np.asarray(file.get_tensor(name))
            for name in header.tensors
            if name.startswith(STATE)
        }


def check_values(what: str, blueprint: Blueprint, weights: Weights) -> None:
    """Refuse values that no network computes with: not finite, or a variance below nothing."""
    norms = {node.name: node.op.eps for node in blueprint.nodes if isinstance(node.op, Norm)}
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise BadWeights(f"{what}: {name!r} has values that are not finite numbers")
        node, _, kind = name.rpartition("/")
        if kind == "variance" and not (array > -norms[node]).all():
            raise BadWeights(f"{what}: {name!r} is a variance and has negative values")


def origin(path: Path, metadata: Mapping[str, str]) -> Origin:
    """The network that a header's words describe."""
    try:
        height, across = (int(word) for word in metadata["image_size"].split("x"))
        found = Origin(
            network=metadata["network"],
            digest=metadata["digest"],
            image_size=(height, across),
            classes=int(metadata["classes"]),
            width=float(metadata["width"]),
            auxiliary=metadata["auxiliary"] == "yes",
            version=metadata["convdyno"],
            note=metadata.get("note", ""),
        )
    except KeyError as missing:
        raise BadWeights(f"{path}: the header lacks {missing}") from None
    except ValueError as wrong:
        raise BadWeights(f"{path}: the header has something that is no number: {wrong}") from None
    texts = (found.network, found.version, found.note)
    if not all(map(str.isprintable, texts)) or not re.fullmatch("[0-9a-f]{64}", found.digest):
        raise BadWeights(f"{path}: the header has no readable network, version, note and digest")
    numbers = (height, across, found.classes)
    if not all(1 <= number <= LARGEST for number in numbers) or not 0 < found.width <= LARGEST:
        raise BadWeights(f"{path}: the header has an image size, classes or width that cannot be")
    return found


def _parse(path: Path, text: bytes, size: int) -> WeightHeader:
    try:
        data = json.loads(text.decode(), object_pairs_hook=_no_twins)
    except (ValueError, RecursionError) as wrong:
        raise BadWeights(
            f"{path} is not a safetensors file: its header is no JSON ({_line(wrong)})"
        ) from None
    if not isinstance(data, dict):
        raise BadWeights(f"{path} is not a safetensors file: its header is no JSON object")
    metadata = data.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise BadWeights(f"{path}: the metadata of the header must be texts by name")
    begin = LENGTH.size + len(text)
    tensors, spans = {}, []
    for name, entry in data.items():
        if not name.isprintable():
            raise BadWeights(f"{path}: the name {_quoted(name)} has unprintable characters")
        match entry:
            case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [start, end]} if (
                dtype in ITEM_BYTES
                and len(shape) <= 8
                and all(type(n) is int and 0 <= n < 2**63 for n in (*shape, start, end))
            ):
                # Multiplied as Python's integers, which cannot overflow.
                if end - start != ITEM_BYTES[dtype] * math.prod(shape):
                    raise BadWeights(
                        f"{path}: {_quoted(name)} has {end - start} bytes, which is not what "
                        f"{dtype} of the shape {_short(shape)} takes"
                    )
                tensors[name] = Tensor(dtype, tuple(shape), begin + start)
                spans.append((start, end, name))
            case _:
                raise BadWeights(
                    f"{path}: the header's entry of {_quoted(name)} is not a known dtype, "
                    "a shape and two offsets"
                )
    place = 0
    for start, end, name in sorted(spans):
        if start != place:
            raise BadWeights(f"{path}: {_quoted(name)} begins at {start}, not at {place}")
        place = end
    if begin + place != size:
        raise BadWeights(
            f"{path} has {size} bytes, not the {begin + place} that its header promises: "
            "it was cut off, or something was appended"
        )
    return WeightHeader(path, tensors, metadata)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            kind = "folder" if path.is_dir() else "device or pipe"
            raise BadWeights(f"{path} is a {kind}, not a file of weights")
        yield
    except OSError as wrong:
        raise BadWeights(f"{path} cannot be read: {wrong.strerror or _line(wrong)}") from None
    except (SafetensorError, ValueError, TypeError, OverflowError) as wrong:
        raise BadWeights(f"{path} is not a safetensors file: {_line(wrong)}") from None


def _bfloat16(path: Path, tensor: Tensor) -> Array:
    """The upper halves of float32 numbers; NumPy has no such type."""
    halves = np.fromfile(path, "<u2", math.prod(tensor.shape), offset=tensor.start)
    return (halves.astype(np.uint32) << 16).view(np.float32).reshape(tensor.shape)


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _quoted(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:77]}...")


def _short(shape: list[int]) -> str:
    text = "x".join(map(str, shape))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__
