"""Weights as files that every engine can read, from and for other tools."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from convdyno.app.networks import drawn
from convdyno.blueprint import weight_file
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weight_file import (
    Origin,
    WeightHeader,
    load_weights,
    origin,
    read_header,
    save_weights,
    write_tensors,
)
from convdyno.blueprint.weights import initial_weights
from convdyno.errors import BadWeights, UsageError
from convdyno.run.foreign import read_foreign
from convdyno.trial import axes, parse
from convdyno.zoo.foreign import LIBRARIES
from convdyno.zoo.foreign.convert import (
    classes_in,
    foreign_names,
    from_foreign,
    recognise,
    to_foreign,
)
from convdyno.zoo.registry import build, networks

LARGEST = 5
"""Tensors that a description names."""


def export_weights(
    network: str, file: Path, *, seed: int = 0, image_size: str | None = None,
    classes: int | None = None, width: float = 1.0, auxiliary: bool = False, force: bool = False,
) -> None:  # fmt: skip
    """Write a network's initial weights: the ones that every engine starts from."""
    axes.find("seed").values(seed)
    _check_target(file, force)
    blueprint = drawn(network, image_size, classes, width, auxiliary)
    weights = initial_weights(blueprint, seed)
    save_weights(file, blueprint, weights, width=width, note=f"initial weights, seed {seed}")


def import_weights(
    file: Path, to_file: Path, network: str, library: str = "auto", *,
    image_size: str | None = None, classes: int | None = None, width: float = 1.0,
    auxiliary: bool = False, force: bool = False,
) -> None:  # fmt: skip
    """Take over weights of torchvision, timm or keras.applications."""
    parse.one_of("library", ("auto", *LIBRARIES))(library)
    _check_target(to_file, force)
    blueprint = drawn(network, image_size, classes, width, auxiliary)
    # Refuse a network that no library has before anything is read.
    foreign_names(blueprint, recognise((), blueprint) if library == "auto" else library)
    if file.suffix == ".safetensors" and read_header(file).canonical:
        raise UsageError(
            f"{file} has convdyno's own weights already; `convdyno weights convert` changes them"
        )
    arrays = read_foreign(file)
    library = recognise(arrays, blueprint) if library == "auto" else library
    count = classes_in(arrays, blueprint, library)
    if classes is None and count is not None and count > 1:
        blueprint = drawn(network, image_size, count, width, auxiliary)
    weights = from_foreign(arrays, blueprint, library, str(file))
    note = f"from {library}: {file.name}"
    save_weights(to_file, blueprint, weights, width=width, note=note)


def convert_weights(source: Path, target: Path, to: str, *, force: bool = False) -> None:
    """Rename and lay out weights as another tool has them, or back again."""
    parse.one_of("form", ("canonical", *LIBRARIES))(to)
    _check_target(target, force)
    header = read_header(source)
    form = _form(header)
    if form is None:
        raise UsageError(
            f"{source} does not say which network it belongs to; "
            "`convdyno weights import --network NAME` reads it"
        )
    found = _origin(header)
    blueprint = _blueprint_of(source, found)
    if form == "canonical":
        weights = load_weights(source, blueprint)
    else:
        weights = from_foreign(read_foreign(source), blueprint, form, str(source))
    if to == "canonical":
        save_weights(target, blueprint, weights, width=found.width, note=found.note)
    else:
        words = weight_file.describe(blueprint, found.width, found.note)
        words |= {"convdyno_form": to, "format": "np" if to == "keras" else "pt"}
        del words["convdyno_format"]
        write_tensors(target, to_foreign(weights, blueprint, to), words)


def _check_target(path: Path, force: bool) -> None:
    """Refuse early what could not be written, or would overwrite something."""
    if path.suffix != ".safetensors":
        raise BadWeights(f"the file to write must end in .safetensors, unlike {str(path)!r}")
    if not path.parent.is_dir():
        raise BadWeights(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
    if path.is_dir():
        raise BadWeights(f"{str(path)!r} is a folder")
    if (path.exists() or path.is_symlink()) and not force:
        raise BadWeights(f"{str(path)!r} exists already; --force overwrites it")


def _form(header: WeightHeader) -> str | None:
    """`canonical`, the library whose names the file has, or None if it does not say."""
    if header.canonical:
        return "canonical"
    form = header.metadata.get("convdyno_form")
    return form if form in LIBRARIES else None


def _origin(header: WeightHeader) -> Origin:
    return header.origin() if header.canonical else origin(header.path, header.metadata)


def _blueprint_of(path: Path, found: Origin) -> Blueprint:
    if found.network not in networks():
        raise BadWeights(f"{path} has weights of {found.network!r}, which is not in the zoo")
    blueprint = build(found.network, found.image_size, found.classes, found.width, found.auxiliary)
    if blueprint.digest != found.digest:
        raise BadWeights(
            f"{path} has weights of another {found.network} (digest {found.digest[:12]}) than "
            f"this version's (digest {blueprint.digest[:12]})"
        )
    return blueprint


def describe(file: Path) -> dict[str, Any]:
    """What a file of weights says of itself, without reading the weights."""
    header = read_header(file)
    sizes = {name: math.prod(tensor.shape) for name, tensor in header.tensors.items()}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:LARGEST]
    form = _form(header)
    found = _origin(header) if form else None
    return {
        "file": str(header.path),
        "form": form,
        "network": found and found.network,
        "digest": found and found.digest,
        "image_size": found and "x".join(map(str, found.image_size)),
        "classes": found and found.classes,
        "width": found and found.width,
        "auxiliary": found and found.auxiliary,
        "convdyno": found and found.version,
        "note": found and found.note,
        "tensors": len(sizes),
        "values": sum(sizes.values()),
        "bytes": header.path.stat().st_size,
        "largest": [
            {
                "tensor": name,
                "dtype": header.tensors[name].dtype,
                "shape": "x".join(map(str, header.tensors[name].shape)),
                "values": sizes[name],
            }
            for name in largest
        ],
    }
