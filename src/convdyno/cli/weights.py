"""`convdyno weights`: weights as files that every engine can read, from and for other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convdyno.cli import parse
from convdyno.zoo.foreign import LIBRARIES

if TYPE_CHECKING:
    from convdyno.blueprint.graph import Blueprint
    from convdyno.blueprint.weight_file import Origin, WeightHeader

EXAMPLES = """\b
Examples:
  convdyno weights export resnet50 start.safetensors --seed 1
  convdyno weights import resnet50.pth resnet50.safetensors --network resnet50-v1.5
  convdyno weights import vgg16.weights.h5 vgg16.safetensors --network vgg16 --from keras
  convdyno weights convert resnet50.safetensors torch.safetensors --to torchvision
  convdyno weights show resnet50.safetensors
"""
LARGEST = 5

app = typer.Typer(
    help="Weights as files: export, import, convert, show.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=EXAMPLES,
)

ImageSize = Annotated[str | None, typer.Option(help="224 or 224x160; default: the network's own.")]
Classes = Annotated[int | None, typer.Option(help="Number of classes.")]
Width = Annotated[float, typer.Option(help="Multiplies every channel count.")]
Auxiliary = Annotated[bool, typer.Option("--auxiliary", help="With the auxiliary heads.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command("export", epilog=EXAMPLES)
def export(
    network: Annotated[str, typer.Argument(help="A name of the zoo, or package.module:function.")],
    file: Annotated[Path, typer.Argument(help="The .safetensors file to write.")],
    seed: Annotated[int, typer.Option(help="Of the random start.")] = 0,
    image_size: ImageSize = None,
    classes: Classes = None,
    width: Width = 1.0,
    auxiliary: Auxiliary = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a network's initial weights: the ones that every engine starts from."""
    from convdyno.blueprint.weight_file import save_weights
    from convdyno.blueprint.weights import initial_weights

    parse.whole("--seed", 0)(str(seed))
    _check_target(file, force)
    blueprint = _build(network, image_size, classes, width, auxiliary)
    weights = initial_weights(blueprint, seed)
    save_weights(file, blueprint, weights, width=width, note=f"initial weights, seed {seed}")
    _tell(file, as_json)


@app.command("import", epilog=EXAMPLES)
def import_(
    file: Annotated[Path, typer.Argument(help="A .safetensors, .pt, .pth or .h5 file.")],
    to_file: Annotated[Path, typer.Argument(help="The .safetensors file to write.")],
    network: Annotated[str, typer.Option(help="The zoo's network that the weights belong to.")],
    from_: Annotated[str, typer.Option("--from", help="auto, torchvision, timm, keras")] = "auto",
    image_size: ImageSize = None,
    classes: Annotated[
        int | None, typer.Option(help="Number of classes; default: what the file has.")
    ] = None,
    width: Width = 1.0,
    auxiliary: Auxiliary = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Take over weights of torchvision, timm or keras.applications.

    Files are never executed: of a .pt or .pth file only tensors are read.
    """
    from convdyno.blueprint.weight_file import read_header, save_weights
    from convdyno.errors import UsageError
    from convdyno.run.foreign import read_foreign
    from convdyno.zoo.foreign.convert import classes_in, foreign_names, from_foreign, recognise

    parse.one_of("library", ("auto", *LIBRARIES))(from_)
    _check_target(to_file, force)
    blueprint = _build(network, image_size, classes, width, auxiliary)
    # Refuse a network that no library has before anything is read.
    foreign_names(blueprint, recognise((), blueprint) if from_ == "auto" else from_)
    if file.suffix == ".safetensors" and read_header(file).canonical:
        raise UsageError(
            f"{file} has convdyno's own weights already; `convdyno weights convert` changes them"
        )
    arrays = read_foreign(file)
    library = recognise(arrays, blueprint) if from_ == "auto" else from_
    count = classes_in(arrays, blueprint, library)
    if classes is None and count is not None and count > 1:
        blueprint = _build(network, image_size, count, width, auxiliary)
    weights = from_foreign(arrays, blueprint, library, str(file))
    note = f"from {library}: {file.name}"
    save_weights(to_file, blueprint, weights, width=width, note=note)
    _tell(to_file, as_json)


@app.command("convert", epilog=EXAMPLES)
def convert(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A .safetensors file.")],
    target: Annotated[Path, typer.Argument(metavar="DST", help="The file to write.")],
    to: Annotated[str, typer.Option(help="canonical, torchvision, timm, keras")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Rename and lay out weights as another tool has them, or back again.

    A torchvision or timm file is a state dict for `load_state_dict`; a keras one has its arrays as
    layer/variable.
    """
    from convdyno.blueprint.weight_file import (
        describe,
        load_weights,
        read_header,
        save_weights,
        write_tensors,
    )
    from convdyno.errors import UsageError
    from convdyno.run.foreign import read_foreign
    from convdyno.zoo.foreign.convert import from_foreign, to_foreign

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
        words = describe(blueprint, found.width, found.note)
        words |= {"convdyno_form": to, "format": "np" if to == "keras" else "pt"}
        del words["convdyno_format"]
        write_tensors(target, to_foreign(weights, blueprint, to), words)
    _tell(target, as_json)


@app.command("show", epilog=EXAMPLES)
def show(
    file: Annotated[Path, typer.Argument(help="A .safetensors file.")],
    as_json: AsJson = False,
) -> None:
    """What a file of weights says of itself, without reading the weights."""
    from convdyno.blueprint.weight_file import read_header

    header = read_header(file)
    document = _document(header)
    if as_json:
        typer.echo(json.dumps(document, indent=1))
        return
    from convdyno.report.console import Screen

    screen = Screen()
    if header.tensors:
        screen.table(document["largest"])  # type: ignore[arg-type]
    if document["network"]:
        screen.line(
            f"{document['network']}: {document['image_size']}, {document['classes']} classes, "
            f"width {document['width']}; {document['form']} names; "
            f"digest {str(document['digest'])[:12]}"
        )
        screen.line(f"written by convdyno {document['convdyno']}: {document['note'] or 'no note'}")
    else:
        screen.line("no convdyno header: another tool's file")
    screen.line(f"{document['tensors']} tensors, {document['values']:,} values")


def _build(
    network: str, image_size: str | None, classes: int | None, width: float, auxiliary: bool
) -> Blueprint:
    from convdyno.zoo.registry import build

    if classes is not None:
        parse.whole("--classes", 2)(str(classes))
    parse.number("--width")(str(width))
    size = parse.image_size(image_size) if image_size else None
    return build(network, size, classes, width, auxiliary)


def _check_target(path: Path, force: bool) -> None:
    """Refuse early what could not be written, or would overwrite something."""
    from convdyno.errors import BadWeights

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
    from convdyno.blueprint.weight_file import origin

    return header.origin() if header.canonical else origin(header.path, header.metadata)


def _blueprint_of(path: Path, found: Origin) -> Blueprint:
    from convdyno.errors import BadWeights
    from convdyno.zoo.registry import build, networks

    if found.network not in networks():
        raise BadWeights(f"{path} has weights of {found.network!r}, which is not in the zoo")
    blueprint = build(found.network, found.image_size, found.classes, found.width, found.auxiliary)
    if blueprint.digest != found.digest:
        raise BadWeights(
            f"{path} has weights of another {found.network} (digest {found.digest[:12]}) than "
            f"this version's (digest {blueprint.digest[:12]})"
        )
    return blueprint


def _document(header: WeightHeader) -> dict[str, object]:
    import math

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


def _tell(file: Path, as_json: bool) -> None:
    """What was written: the same words as `show`, in one line."""
    from convdyno.blueprint.weight_file import read_header

    document = _document(read_header(file))
    if as_json:
        typer.echo(json.dumps(document, indent=1))
    else:
        typer.echo(
            f"{file}: {document['network']} in {document['form']} names, "
            f"{document['tensors']} tensors, {document['values']:,} values"
        )
