"""`convdyno data`: data sets got, looked into, converted and made."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convdyno.app.requests import THREADS, ConvertRequest, MakeRequest, SpeedRequest
from convdyno.cli.help import examples
from convdyno.cli.options import AsJson, asks, echo_json, group, new_screen
from convdyno.terminal import erase_line

if TYPE_CHECKING:
    from convdyno.app.data_sets import ConvertedSet

EXAMPLES = """\b
Examples:
  convdyno data get mnist
  convdyno data get cifar10 --from cifar-10-python.tar.gz --to cifar10/
  convdyno data info imagenet/ --check
  convdyno data convert imagenet/ records/ --to tfrecord --shards 1024
  convdyno data convert imagenet/ small/ --to folder --short-side 256 --quality 90
  convdyno data make photos/ --images 2000 --classes 10
  convdyno data speed photos/
"""
SPEED_EXAMPLES = """\b
Examples:
  convdyno data speed imagenet/ --batch 64 --threads 2
  convdyno data speed records/ --decoder simplejpeg --colour folded
  convdyno data speed cifar10 --split validation --json
"""
PATIENCE = 10.0
"""Seconds between two lines of progress where there is no terminal."""
MOST_CLASSES = 5
BAR_WIDTH = 40
"""Characters of the longest bar."""

app = group("Data sets: get, info, convert, make, speed.", EXAMPLES)

Threads = Annotated[int | None, typer.Option(help=THREADS)]
Target = Annotated[Path, typer.Argument(metavar="DST", help="The folder to write.")]


@app.command(
    "get",
    epilog=examples(
        "convdyno data get mnist",
        "convdyno data get cifar10 --from cifar-10-python.tar.gz --to cifar10/",
    ),
)
def get(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist, cifar10")],
    to: Annotated[
        Path | None,
        typer.Option(help="The folder to make; default: $CONVDYNO_DATA or the cache, by name."),
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option("--from", help="A file or folder that you have; nothing is downloaded."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Bring MNIST, Fashion-MNIST or CIFAR-10 here: downloaded, or from what you have.

    It is checked by its content. Tar archives, gzip or raw idx files and the python, binary and png
    forms of CIFAR-10 are all taken.
    """
    from convdyno.app.data_sets import get

    got = get(name, to, from_, lambda line: typer.echo(line, err=True))
    for warning in got.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if as_json:
        document = {"path": str(got.path), "counts": got.counts, "warnings": list(got.warnings)}
        echo_json(document)
    else:
        typer.echo(f"{got.path}: {name}, {_counts(got.counts)}")


@app.command(
    "info",
    epilog=examples(
        "convdyno data info mnist",
        "convdyno data info imagenet/ --check",
    ),
)
def info(
    path: Annotated[str, typer.Argument(help="A file, a folder, or a name that `get` knows.")],
    check: Annotated[
        bool, typer.Option("--check", help="Verify every checksum and decode every image.")
    ] = False,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """What a data set is: format, splits, classes, counts, sizes, damage; exit code 2 if damaged.

    Sizes are those of a thousand images, evenly spread, unless all are checked.
    """
    from convdyno.app.data_sets import look_at

    follow = _Line("looked at") if check else None
    document = look_at(path, check=check, threads=threads, follow=follow)
    if as_json:
        echo_json(document)
    else:
        _show(document)
    if document["damaged"]:
        raise typer.Exit(2)


@app.command(
    "convert",
    epilog=examples(
        "convdyno data convert imagenet/ records/ --to tfrecord --shards 1024",
        "convdyno data convert imagenet/ small/ --to folder --short-side 256 --quality 90",
    ),
)
@asks(ConvertRequest)
def convert(
    request: ConvertRequest,
    source: Annotated[str, typer.Argument(metavar="SRC", help="A path, or a name of `get`.")],
    target: Target,
    to: Annotated[str, typer.Option(help="tfrecord, folder")],
    as_json: AsJson = False,
) -> None:
    """Write a data set as TFRecord shards or class folders.

    ImageNet's archives are read as they are distributed. Stopped half-way, the same command
    goes on where it stopped.
    """
    from convdyno.app.data_sets import convert_set

    line = _Line("written")
    _told(convert_set(request, line), line, as_json)


@app.command(
    "make",
    epilog=examples(
        "convdyno data make photos/ --images 2000 --classes 10",
        "convdyno data make records/ --to tfrecord --shards 8",
    ),
)
@asks(MakeRequest)
def make(request: MakeRequest, target: Target, as_json: AsJson = False) -> None:
    """Make JPEGs that decode like photographs, to try things out; each class has its colour."""
    from convdyno.app.data_sets import make_set

    line = _Line("written")
    _told(make_set(request, line), line, as_json)


@app.command("speed", epilog=SPEED_EXAMPLES)
@asks(SpeedRequest)
def speed(
    request: SpeedRequest,
    path: Annotated[str, typer.Argument(help="A data set's path, or a name `data get` knows.")],
    as_json: AsJson = False,
) -> None:
    """Measure the input pipeline alone: images/s, per core, MB/s, and what an image costs."""
    from convdyno.app.data_sets import speed_of

    document = speed_of(request)
    if as_json:
        echo_json(document)
    else:
        _show_speed(document)


def _told(done: ConvertedSet, line: _Line, as_json: bool) -> None:
    """What was written."""
    line.end()
    counts = done.done
    for sentence in counts.first_skipped:
        typer.echo(f"skipped: {sentence}", err=True)
    if as_json:
        names = ("counts", "skipped", "repaired", "resumed")
        about = {"path": str(done.path), "to": done.to} | {n: getattr(counts, n) for n in names}
        echo_json(about | {"seconds": done.seconds})
        return
    notes = [f"{counts.skipped} skipped"] * bool(counts.skipped)
    notes += [f"{counts.repaired} repaired"] * bool(counts.repaired)
    notes += ["resumed"] * counts.resumed
    more = f" ({', '.join(notes)})" if notes else ""
    typer.echo(f"{done.path}: {done.to}, {_counts(counts.counts)}{more}, {done.seconds:.1f} s")


def _counts(counts: Any) -> str:
    return ", ".join(f"{count:,} {split} images" for split, count in counts.items())


def _show(document: dict[str, Any]) -> None:
    screen = new_screen()
    rows = [
        {
            "split": name,
            "images": f"{split['count']:,}",
            "MB": f"{split['bytes'] / 1e6:,.1f}",
            "per class": _range(split["images_per_class"]),
            "height": _range(split["height"]),
            "width": _range(split["width"]),
            "encoding": ", ".join(split["encodings"]),
        }
        for name, split in document["splits"].items()
    ]
    names = document["classes"]
    more = ", ..." if len(names) > MOST_CLASSES else ""
    screen.line(f"{document['path']}: {document['format']}", style="bold")
    if names:
        first = ", ".join(names[:MOST_CLASSES])
        screen.line(f"{len(names)} classes: {first}{more}")
    if rows:
        screen.table(rows)
    if document["damaged"]:
        screen.line(f"{document['damaged']} damaged:")
        for sentence in document["damage"]:
            screen.line(f"  {sentence}")
    elif document["checked"]:
        screen.line("no damage: every image decodes")


def _show_speed(document: dict[str, Any]) -> None:
    how = document["settings"]
    height, width, channels = document["image"]
    typer.echo(
        f"{document['path']}: {document['examples']:,} examples ({document['kind']}, "
        f"{document['split']}) as batches of {document['batch']} x {height}x{width}x{channels}"
    )
    typer.echo(
        f"decoder {how['decoder']} ({how['fidelity']}), crop {how['crop']}, "
        f"{how['resize']} resize, mirror {'on' if how['mirror'] else 'off'}, "
        f"colour {how['colour']}, threads {how['threads']}"
    )
    low, high = document["low"], document["high"]
    typer.echo(
        f"{document['images_per_second']:,.0f} images/s [{low:,.0f}, {high:,.0f}], "
        f"{document['images_per_second_per_core']:,.0f} a core, "
        f"{document['megabytes_per_second']:,.1f} MB/s "
        f"({document['bytes_per_image'] / 1000:,.1f} KB an image)"
    )
    names = ("read", "decode", "transform")
    times = [document[f"{name}_seconds"] for name in names]
    total = sum(times) or 1.0
    typer.echo(f"one image on one core: {total * 1e6:,.0f} us")
    for name, seconds in zip(names, times, strict=True):
        bar = "#" * round(BAR_WIDTH * seconds / total)
        typer.echo(f"  {name:10}{seconds * 1e6:8,.0f} us {seconds / total:5.0%}  {bar}".rstrip())


def _range(values: list[int] | None) -> str:
    """`28`, or `100..500`, with the median between where there is one."""
    if values is None:
        return "-"
    return str(values[0]) if len(set(values)) == 1 else "..".join(map(str, values))


class _Line:
    """One line of progress, written over; a line now and then where there is no terminal."""

    def __init__(self, done: str) -> None:
        self._done = done
        self._shown = time.monotonic()
        self._open = False

    def __call__(self, count: int, total: int, seconds: float) -> None:
        terminal = sys.stderr.isatty()
        now = time.monotonic()
        if now - self._shown < (0.2 if terminal else PATIENCE):
            return
        self._shown = now
        left = f", {_time(seconds)} left" if seconds else ""
        text = f"{count:,} of {total:,} images {self._done}{left}"
        self._open = terminal
        if terminal:
            erase_line(sys.stderr)
        print(text, end="" if terminal else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line as it is, and begin another."""
        if self._open:
            print(file=sys.stderr)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
