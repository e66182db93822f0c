"""Weights as files that every engine can read, from and for other tools."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from convdyno.app.catalogue import drawn
from convdyno.app.requests import ExportRequest, ImportRequest
from convdyno.blueprint import weight_file
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weight_file import Origin, WeightHeader, read_header, save_weights
from convdyno.blueprint.weights import initial_weights
from convdyno.errors import BadWeights, UsageError
from convdyno.run.foreign import read_foreign
from convdyno.trial import axes, parse
from convdyno.zoo.foreign import LIBRARIES, convert
from convdyno.zoo.registry import build, networks

LARGEST = 5
"""Tensors that a description names."""


def export_weights(request: ExportRequest) -> None:
    """Write a network's initial weights: the ones that every engine starts from."""
    axes.find("seed").values(request.seed)
    _check_target(request.file, request.force)
    blueprint = drawn(request)
    weights = initial_weights(blueprint, request.seed)
    note = f"initial weights, seed {request.seed}"
    save_weights(request.file, blueprint, weights, width=request.width, note=note)


def import_weights(request: ImportRequest) -> None:
    """Take over weights of torchvision, timm or keras.applications."""
    file, library = request.file, request.library
    parse.one_of("library", ("auto", *LIBRARIES))(library)
    _check_target(request.to_file, request.force)
    blueprint = drawn(request)
    # Refuse a network that no library has before anything is read.
    likely = convert.recognise((), blueprint) if library == "auto" else library
    convert.foreign_names(blueprint, likely)
    if file.suffix == ".safetensors" and read_header(file).canonical:
        raise UsageError(
            f"{file} has convdyno's own weights already; `convdyno weights convert` changes them"
        )
    arrays = read_foreign(file)
    library = convert.recognise(arrays, blueprint) if library == "auto" else library
    count = convert.classes_in(arrays, blueprint, library)
    if request.classes is None and count is not None and count > 1:
        blueprint = drawn(replace(request, classes=count))
    weights = convert.from_foreign(arrays, blueprint, library, str(file))
    note = f"from {library}: {file.name}"
    save_weights(request.to_file, blueprint, weights, width=request.width, note=note)


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
        weights = weight_file.load_weights(source, blueprint)
    else:
        weights = convert.from_foreign(read_foreign(source), blueprint, form, str(source))
    if to == "canonical":
        save_weights(target, blueprint, weights, width=found.width, note=found.note)
    else:
        words = weight_file.describe(blueprint, found.width, found.note)
        words |= {"convdyno_form": to, "format": "np" if to == "keras" else "pt"}
        del words["convdyno_format"]
        weight_file.write_tensors(target, convert.to_foreign(weights, blueprint, to), words)


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
    return header.origin() if header.canonical else weight_file.origin(header.path, header.metadata)


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
