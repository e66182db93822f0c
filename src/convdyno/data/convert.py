"""A data set written anew as TFRecord shards or class folders.

The work is cut into shards, in an order that the seed alone decides. Each shard is written under a
hidden name and renamed when it is complete, then noted in a journal; a run that was killed goes on
after the last note, and ends with the same bytes as one that was not.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from convdyno.data.dataset_json import DATASET_JSON, folder_name, write_json
from convdyno.data.detect import DataSet
from convdyno.data.encoded_image import (
    PLAIN,
    ImageHeader,
    check_whole,
    encode,
    ends_early,
    read_header,
)
from convdyno.data.files import listed, told_if_full
from convdyno.data.folder import class_folders
from convdyno.data.source import DecodedImages, Source, Split
from convdyno.data.tf_example import Picture, build_example
from convdyno.data.tfrecord import Records, RecordWriter
from convdyno.data.tolerance import OnBad, Tolerance
from convdyno.errors import BadData, UsageError
from convdyno.files import clear_parts, whole_file

Form = Literal["tfrecord", "folder"]
Encoding = Literal["keep", "jpeg", "png"]
JOURNAL = ".convdyno-conversion.json"
SHARD_BYTES = 128 << 20
"""What a shard is meant to have when their number is not given."""
MOST_SHARDS = 1024
FILES_AT_ONCE = 1000
"""Images between two notes in the journal when folders are written."""
WINDOW = 16
"""Images in work at once, for each thread."""
ENDINGS = {"JPEG": (".jpg", ".jpeg"), "PNG": (".png",)}

Progress = Callable[[int, int, float], None]
"""Called with images done, images in all and the seconds that remain."""


@dataclass(frozen=True)
class Options:
    """How a set is written."""

    to: Form = "tfrecord"
    shards: int | None = None
    """Of the training split; the other gets its share. None: by size."""
    short_side: int | None = None
    """Shrink larger images so that the shorter side has so many pixels."""
    quality: int = 95
    """Of JPEGs that are encoded anew."""
    encoding: Encoding = "keep"
    """Keep grey and RGB JPEG and PNG as they are; or make all of them one or the other."""
    seed: int = 0
    """Of the order of training images."""
    on_bad: OnBad = "error"


@dataclass(frozen=True)
class Written:
    """What a conversion wrote."""

    counts: dict[str, int]
    skipped: int
    repaired: int
    first_skipped: tuple[str, ...]
    resumed: bool


@runtime_checkable
class Named(Protocol):
    """A source that knows the file names of its images."""

    def name(self, index: int) -> str:
        """The file name of an image."""


@dataclass(frozen=True)
class _Job:
    """One shard: which images, and what it is called."""

    key: str
    split: Split
    rows: Sequence[int]


@dataclass(frozen=True)
class _Ready:
    """An image as it is to be written."""

    data: bytes
    label: int
    header: ImageHeader
    name: str
    repaired: bool


def convert(
    found: DataSet,
    target: Path,
    options: Options,
    origin: str,
    threads: int = 1,
    progress: Progress | None = None,
) -> Written:
    """Write every split of a data set to a folder, or go on where an earlier run was stopped."""
    sources = {split: found.open(split) for split in found.splits}
    try:
        with told_if_full(target):
            plan = _Plan(sources, target, options, origin, threads, progress)
            return plan.run()
    finally:
        for source in sources.values():
            if not isinstance(source, DecodedImages):
                source.close()


class _Plan:
    """The shards of a conversion, those that are done and those to do."""

    def __init__(
        self,
        sources: dict[Split, Source],
        target: Path,
        options: Options,
        origin: str,
        threads: int,
        progress: Progress | None,
    ) -> None:
        self.sources, self.target, self.options = sources, target, options
        self.threads, self.progress = threads, progress
        facts = [source.facts for source in sources.values()]
        self.classes = facts[0].classes
        counts = {fact.split: fact.count for fact in facts}
        sizes = {fact.split: fact.bytes for fact in facts}
        self.identity = {
            "from": origin,
            "options": {k: v for k, v in asdict(options).items() if k != "on_bad"},
            "images": counts,
            "bytes": sizes,
        }
        self.jobs = [job for split in sources for job in _jobs(split, counts, sizes, options)]
        self.total = sum(counts.values())
        self.repeated = {
            split: _repeated(source) if options.to == "folder" else frozenset[int]()
            for split, source in sources.items()
        }
        self.tolerances = {
            split: Tolerance(options.on_bad, count) for split, count in counts.items()
        }

    def run(self) -> Written:
        """Do what is left to do."""
        done = self._begin()
        if done is None:
            return self._finished(json.loads((self.target / DATASET_JSON).read_bytes()), True)
        resumed = bool(done)
        left = [job for job in self.jobs if job.key not in done]
        for job in self.jobs:
            self.tolerances[job.split].count += done.get(job.key, {}).get("skipped", 0)
        self.todo = self.left = sum(len(job.rows) for job in left)
        self.started = time.monotonic()
        for job in left:
            done[job.key] = self._write(job)
            self._note(done)
        document = self._dataset_json(done)
        write_json(self.target / DATASET_JSON, document)
        (self.target / JOURNAL).unlink()
        return self._finished(document, resumed)

    def _begin(self) -> dict[str, Any] | None:
        """The journal of an earlier run; None if that came to its end."""
        self.target.mkdir(parents=True, exist_ok=True)
        journal = self.target / JOURNAL
        if journal.exists():
            done = self._same(journal)["done"]
            clear_parts(self.target, "**/*", older=0)
            return dict(done)
        if (self.target / DATASET_JSON).exists():
            self._same(self.target / DATASET_JSON)
            return None
        if any(self.target.iterdir()):
            raise UsageError(f"{self.target} is not empty; name a folder that is, or a new one")
        self._note({})
        return {}

    def _same(self, path: Path) -> dict[str, Any]:
        """A journal or result whose conversion is this one, told apart by what differs."""
        try:
            found: dict[str, Any] = json.loads(path.read_bytes())
            made = found["made"]
            theirs = {**made["options"], **{k: v for k, v in made.items() if k != "options"}}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadData(f"{path} is not of a conversion; name another folder") from error
        ours = {**self.identity["options"], **self.identity}  # type: ignore[dict-item]
        for key, value in ours.items():
            if key != "options" and theirs.get(key) != value:
                raise UsageError(
                    f"{self.target} was begun with {key} {_said(theirs.get(key))}, not "
                    f"{_said(value)}; use the same, or another folder"
                )
        return found

    def _note(self, done: dict[str, Any]) -> None:
        write_json(self.target / JOURNAL, {"made": self.identity, "done": done})

    def _write(self, job: _Job) -> dict[str, int]:
        tolerance = self.tolerances[job.split]
        before = tolerance.count
        write = self._records if self.options.to == "tfrecord" else self._files
        repaired = [ready.repaired for ready in write(job)]
        skipped = tolerance.count - before
        return {"count": len(repaired), "skipped": skipped, "repaired": sum(repaired)}

    def _records(self, job: _Job) -> Iterator[_Ready]:
        """The images of a shard, each as soon as it is written."""
        with whole_file(self.target / job.key) as file:
            writer = RecordWriter(file)
            for ready in self._prepared(job):
                header = ready.header
                picture = Picture(
                    encoded=ready.data,
                    label=ready.label + 1,
                    text=self.classes[ready.label],
                    filename=ready.name,
                    height=header.height,
                    width=header.width,
                    channels=1 if header.mode == "L" else 3,
                    format=header.format,
                )
                writer.write(build_example(picture))
                yield ready

    def _files(self, job: _Job) -> Iterator[_Ready]:
        folders = [self.target / job.split / folder_name(name) for name in self.classes]
        for ready in self._prepared(job):
            folder = folders[ready.label]
            folder.mkdir(parents=True, exist_ok=True)
            with whole_file(folder / ready.name, sync=False) as file:
                file.write(ready.data)
            yield ready

    def _prepared(self, job: _Job) -> Iterator[_Ready]:
        """The images of a shard in their order, made ready by several threads."""
        source, repeated = self.sources[job.split], self.repeated[job.split]

        def prepare(row: int) -> _Ready:
            return _ready(source, row, self.options, row in repeated)

        tolerance, window = self.tolerances[job.split], WINDOW * self.threads
        return tolerance.whole(prepare, job.rows, self.threads, window, self._passed)

    def _passed(self, count: int) -> None:
        """So many images more are done: say how far it is, and how long it will take."""
        self.left -= count
        pace = (time.monotonic() - self.started) / (self.todo - self.left)
        if self.progress is not None:
            self.progress(self.total - self.left, self.total, pace * self.left)

    def _dataset_json(self, done: dict[str, Any]) -> dict[str, Any]:
        counts = dict.fromkeys(self.sources, 0)
        for job in self.jobs:
            counts[job.split] += done[job.key]["count"]
        if self.options.to == "folder":
            for split, count in counts.items():
                _check_files(self.target / split, count)
        sums = {key: sum(entry[key] for entry in done.values()) for key in ("skipped", "repaired")}
        return {
            "format": 1,
            "first_label": 1 if self.options.to == "tfrecord" else 0,
            "classes": list(self.classes),
            "counts": counts,
            **sums,
            "made": self.identity,
        }

    def _finished(self, document: dict[str, Any], resumed: bool) -> Written:
        first = [line for tolerance in self.tolerances.values() for line in tolerance.first]
        counts, skipped, repaired = (document[key] for key in ("counts", "skipped", "repaired"))
        return Written(counts, skipped, repaired, tuple(first), resumed)


def _jobs(
    split: Split, counts: dict[Split, int], sizes: dict[Split, int], options: Options
) -> list[_Job]:
    """The shards of a split, each with the numbers of its images."""
    count = counts[split]
    order = np.arange(count)
    if split == "train":
        order = np.random.default_rng([options.seed, 0x0DD]).permutation(count)
    if options.to == "folder":
        number = -(-count // FILES_AT_ONCE)
    elif options.shards is None:
        number = min(MOST_SHARDS, max(1, round(sizes[split] / SHARD_BYTES)))
    else:
        number = max(1, round(options.shards * count / counts.get("train", count)))
    number = min(number, count)
    pieces = np.array_split(order, number)
    return [
        _Job(f"{split}-{place:05d}-of-{number:05d}", split, piece.tolist())
        for place, piece in enumerate(pieces)
    ]


def _repeated(source: Source) -> frozenset[int]:
    """Records whose file names occur more than once; files of folders cannot."""
    if not isinstance(source, Records):
        return frozenset()
    names = [source.name(row) for row in range(len(source))]
    often = Counter(names)
    return frozenset(row for row, name in enumerate(names) if often[name] > 1)


def _ready(source: Source, row: int, options: Options, numbered: bool) -> _Ready:
    """One image as it is to be written: carried over, shrunk or repaired."""
    wanted = "PNG" if options.encoding == "png" else "JPEG"
    if isinstance(source, DecodedImages):
        where = f"image {row} of {source.facts.path}"
        data, header = encode(
            source.images[row], wanted, options.quality, where, options.short_side
        )
        name = _file_name("", row, header.format)
        return _Ready(data, int(source.labels[row]), header, name, False)
    example = source.read(row)
    content = bytes(example.data)
    header = read_header(content, example.where)
    given = source.name(row) if isinstance(source, Named) else ""
    given = f"{row:08d}-{given}" if numbered and given else given
    shortest = min(header.width, header.height)
    shrink = options.short_side is not None and shortest > options.short_side
    odd = _must_change(header, given)
    if options.encoding == "keep" and header.format == "PNG" and not odd:
        wanted = "PNG"
    if shrink or odd or header.format != wanted:
        content, header = encode(
            content, wanted, options.quality, example.where, options.short_side
        )
    elif header.format == "JPEG" and ends_early(content):
        check_whole(content, example.where)
    return _Ready(content, example.label, header, _file_name(given, row, header.format), odd)


def _must_change(header: ImageHeader, name: str) -> bool:
    """Whether readers of JPEG and PNG would stumble: CMYK, another format, a PNG called JPEG."""
    if header.mode not in PLAIN or header.format not in ENDINGS:
        return True
    return header.format == "PNG" and name.lower().endswith(ENDINGS["JPEG"])


def _file_name(given: str, row: int, format: str) -> str:
    """The image's own name, with an ending that tells the truth."""
    plain = given.strip("/").replace("/", "-").replace("\0", "")
    name = plain.lstrip(".") or f"{row:08d}"
    return name if name.lower().endswith(ENDINGS[format]) else name + ENDINGS[format][0]


def _check_files(folder: Path, count: int) -> None:
    """Two images of one name would have become one file."""
    found = sum(len(listed(folder / name)) for name in class_folders(folder))
    if found != count:
        raise BadData(f"{folder} has {found} files of {count} images: some have the same name")


def _said(value: object) -> str:
    return "unset" if value is None else json.dumps(value)
