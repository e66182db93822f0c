"""`convdyno weights`: weights as files that every engine can read, from and for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convdyno.app.requests import ExportRequest, ImportRequest
from convdyno.cli.help import examples
from convdyno.cli.options import AsJson, asks, echo_json, group, new_screen

EXAMPLES = """\b
Examples:
  convdyno weights export resnet50 start.safetensors --seed 1
  convdyno weights import resnet50.pth resnet50.safetensors --network resnet50-v1.5
  convdyno weights import vgg16.weights.h5 vgg16.safetensors --network vgg16 --from keras
  convdyno weights convert resnet50.safetensors torch.safetensors --to torchvision
  convdyno weights show resnet50.safetensors
"""

app = group("Weights as files: export, import, convert, show.", EXAMPLES)


@app.command(
    "export",
    epilog=examples(
        "convdyno weights export resnet50 start.safetensors --seed 1",
    ),
)
@asks(ExportRequest)
def export(
    request: ExportRequest,
    network: Annotated[str, typer.Argument(help="A name of the zoo, or package.module:function.")],
    file: Annotated[Path, typer.Argument(help="The .safetensors file to write.")],
    as_json: AsJson = False,
) -> None:
    """Write a network's initial weights: the ones that every engine starts from."""
    from convdyno.app.weight_files import export_weights

    export_weights(request)
    _tell(file, as_json)


@app.command(
    "import",
    epilog=examples(
        "convdyno weights import resnet50.pth resnet50.safetensors --network resnet50-v1.5",
        "convdyno weights import vgg16.weights.h5 vgg16.safetensors --network vgg16 --from keras",
    ),
)
@asks(ImportRequest)
def import_(
    request: ImportRequest,
    file: Annotated[Path, typer.Argument(help="A .safetensors, .pt, .pth or .h5 file.")],
    to_file: Annotated[Path, typer.Argument(help="The .safetensors file to write.")],
    network: Annotated[str, typer.Option(help="The zoo's network that the weights belong to.")],
    library: Annotated[str, typer.Option("--from", help="auto, torchvision, timm, keras")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Take over weights of torchvision, timm or keras.applications.

    Files are never executed: of a .pt or .pth file only tensors are read.
    """
    from convdyno.app.weight_files import import_weights

    import_weights(request)
    _tell(to_file, as_json)


@app.command(
    "convert",
    epilog=examples(
        "convdyno weights convert resnet50.safetensors torch.safetensors --to torchvision",
    ),
)
def convert(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A .safetensors file.")],
    target: Annotated[Path, typer.Argument(metavar="DST", help="The file to write.")],
    to: Annotated[str, typer.Option(help="canonical, torchvision, timm, keras")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Rename and lay out weights as another tool has them, or back again.

    A torchvision or timm file is a state dict for `load_state_dict`; a keras one has its arrays as
    layer/variable.
    """
    from convdyno.app.weight_files import convert_weights

    convert_weights(source, target, to, force=force)
    _tell(target, as_json)


@app.command(
    "show",
    epilog=examples(
        "convdyno weights show resnet50.safetensors",
    ),
)
def show(
    file: Annotated[Path, typer.Argument(help="A .safetensors file.")],
    as_json: AsJson = False,
) -> None:
    """What a file of weights says of itself, without reading the weights."""
    from convdyno.app.weight_files import describe

    document = describe(file)
    if as_json:
        echo_json(document)
        return

    screen = new_screen()
    if document["tensors"]:
        screen.table(document["largest"])
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


def _tell(file: Path, as_json: bool) -> None:
    """What was written: the same words as `show`, in one line."""
    from convdyno.app.weight_files import describe

    document = describe(file)
    if as_json:
        echo_json(document)
    else:
        typer.echo(
            f"{file}: {document['network']} in {document['form']} names, "
            f"{document['tensors']} tensors, {document['values']:,} values"
        )
