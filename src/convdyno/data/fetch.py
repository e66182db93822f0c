"""Well-known sets, downloaded or taken from what the user has, and checked by their content.

Whatever form they come in, they are kept in one that opens at once: raw idx files, or CIFAR-10's
binary batches.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from convdyno.data.cifar import CLASSES, write_binary
from convdyno.data.detect import default_folder, recognise
from convdyno.data.files import CHUNK, reason, told_if_full
from convdyno.data.idx import write_idx
from convdyno.data.source import DecodedImages, Split
from convdyno.errors import BadData, UnknownName, UsageError
from convdyno.files import whole_file

TIMEOUT = 30.0
BATCHES = 5
"""Files that CIFAR-10's training images are kept in, as they are distributed."""
MEAN_TOLERANCE = 5e-5
IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte",
       "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")  # fmt: skip
COUNTS: dict[Split, int] = {"train": 60_000, "validation": 10_000}

Progress = Callable[[str], None]
"""Called with one line for each thing the user waits for."""


@dataclass(frozen=True)
class Known:
    """A well-known set: where it is, and what it has."""

    addresses: tuple[str, ...]
    """Folders, the nearest first."""
    files: dict[str, str]
    """What to download, and its MD5 as published."""
    image: tuple[int, int, int]
    counts: dict[Split, int]
    content: dict[str, str]
    """The MD5 of each idx file, uncompressed."""


KNOWN = {
    "mnist": Known(
        (
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ),
        {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
        (28, 28, 1),
        COUNTS,
        {
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
    ),
    "fashion-mnist": Known(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
        ),
        {
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
        (28, 28, 1),
        COUNTS,
        {
            "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
            "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
            "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
        },
    ),
    "cifar10": Known(
        ("https://www.cs.toronto.edu/~kriz/",),
        {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
        (32, 32, 3),
        {"train": 50_000, "validation": 10_000},
        {},
    ),
}
CIFAR_MEAN = (0.49140, 0.48216, 0.44653)
"""Of the training images' channels, from 0 to 1."""


@dataclass(frozen=True)
class Got:
    """Where a set is now, and what to mind."""

    path: Path
    warnings: tuple[str, ...]
    counts: dict[Split, int]


def get(
    name: str, to: Path | None = None, source: Path | None = None, progress: Progress = print
) -> Got:
    """Bring a well-known set to a folder, from its address or from what the user has."""
    if name not in KNOWN:
        raise UnknownName("data set", name, KNOWN)
    known = KNOWN[name]
    target = default_folder(name) if to is None else to
    with told_if_full(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            return _there_already(name, known, target)
        work = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
        try:
            if source is None:
                source = work / "download"
                source.mkdir()
                for file, md5 in known.files.items():
                    download(known.addresses, file, md5, source / file, progress)
            splits = _open(name, known, source)
            made = work / "made"
            made.mkdir(mode=0o755)
            write = _write_cifar if name == "cifar10" else _write_idx
            warnings = write(made, splits, known)
            made.replace(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return _got(target, known, splits, warnings)


def _there_already(name: str, known: Known, target: Path) -> Got:
    try:
        splits = _open(name, known, target)
    except BadData as error:
        raise UsageError(f"{target} exists already and does not hold {name}: {error}") from error
    return _got(target, known, splits, [])


def download(addresses: tuple[str, ...], name: str, md5: str, to: Path, progress: Progress) -> None:
    """Download a file over https from the first address that has it, and check it."""
    reasons = []
    for address in addresses:
        progress(f"downloading {address}{name}")
        try:
            found = _pour(address + name, to)
        except (OSError, urllib.error.URLError, ValueError) as error:
            reasons.append(f"{address}{name}: {reason(error)}")
            continue
        if found == md5:
            return
        reasons.append(f"{address}{name} has MD5 {found}, not {md5}")
    raise BadData(
        f"{name} could not be downloaded ({'; '.join(reasons)}); "
        "with --from it is taken from a file or folder that you have"
    )


class _OnlyHttps(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but never out of https."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: object,
        newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        if not newurl.startswith("https://"):
            raise urllib.error.URLError(f"it redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _pour(address: str, to: Path) -> str:
    """Download to a file; gives its MD5."""
    if not address.startswith("https://"):
        raise ValueError("only https is used")
    digest = hashlib.md5(usedforsecurity=False)
    opener = urllib.request.build_opener(_OnlyHttps)
    with opener.open(address, timeout=TIMEOUT) as answer, whole_file(to) as file:
        while piece := answer.read(CHUNK):
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def _open(name: str, known: Known, source: Path) -> dict[Split, DecodedImages]:
    found = recognise(str(source.absolute()))
    splits: dict[Split, DecodedImages] = {}
    for split in known.counts:
        opened = found.open(split) if split in found.splits else None
        if not isinstance(opened, DecodedImages) or opened.facts.image != known.image:
            raise BadData(f"{source} is not {name}: it has no {split} images of {known.image}")
        splits[split] = opened
    return splits


def _got(
    target: Path, known: Known, splits: dict[Split, DecodedImages], warnings: list[str]
) -> Got:
    counts = {split: len(arrays) for split, arrays in splits.items()}
    unlike = [
        f"{count} {split} images, where {known.counts[split]} are usual"
        for split, count in counts.items()
        if count != known.counts[split]
    ]
    return Got(target, (*unlike, *warnings), counts)


def _write_idx(folder: Path, splits: dict[Split, DecodedImages], known: Known) -> list[str]:
    warnings = []
    contents: list[NDArray[Any]] = []
    for arrays in (splits["train"], splits["validation"]):
        contents += [arrays.images[..., 0], arrays.labels]
    for name, values in zip(IDX, contents, strict=True):
        buffer = io.BytesIO()
        write_idx(buffer, values.astype(np.uint8))
        content = buffer.getvalue()
        (folder / name).write_bytes(content)
        if hashlib.md5(content, usedforsecurity=False).hexdigest() != known.content[name]:
            warnings.append(f"{name} differs from the published file")
    return warnings


def _write_cifar(folder: Path, splits: dict[Split, DecodedImages], known: Known) -> list[str]:
    train, held = splits["train"], splits["validation"]
    rows = np.array_split(np.arange(len(train)), BATCHES)
    for number, batch in enumerate(rows, 1):
        with (folder / f"data_batch_{number}.bin").open("wb") as file:
            write_binary(file, train.images[batch], train.labels[batch])
    with (folder / "test_batch.bin").open("wb") as file:
        write_binary(file, held.images, held.labels)
    (folder / "batches.meta.txt").write_text("\n".join(CLASSES) + "\n")
    mean = train.images.mean((0, 1, 2)) / 255
    counts = np.bincount(train.labels, minlength=len(CLASSES))
    usual = np.allclose(mean, CIFAR_MEAN, rtol=0, atol=MEAN_TOLERANCE)
    if not usual or len(set(counts)) > 1:
        return ["the training images differ from the published ones"]
    return []
