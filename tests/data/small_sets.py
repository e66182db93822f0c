"""Small data sets in exactly the forms that the real ones are distributed in."""

import gzip
import io
import json
import struct
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

SYNSETS = ("n01440764", "n01443537", "n02105855")
DEVKIT_NUMBERS = {"n02105855": 1, "n01440764": 2, "n01443537": 3}
"""The development kit's numbers are in no order of names."""


def idx(values: np.ndarray) -> bytes:
    head = b"\0\0\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(np.uint8).tobytes()


def mnist(folder: Path, zipped: bool = False, count: int = 7) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (count, 28, 28), np.uint8)
    labels = np.arange(count, dtype=np.uint8) % 10
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in (
        ("train-images-idx3-ubyte", images),
        ("train-labels-idx1-ubyte", labels),
        ("t10k-images-idx3-ubyte", images[::-1]),
        ("t10k-labels-idx1-ubyte", labels[::-1]),
    ):
        content = idx(values)
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return images, labels


def cifar_arrays(count: int = 6) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    return random.integers(0, 256, (count, 32, 32, 3), np.uint8), np.arange(count) % 10


def planes(images: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2).reshape(len(images), -1))


def python2_pickle(images: np.ndarray, labels: list[int]) -> bytes:
    """A batch as CIFAR-10's own files have it: protocol 2, written by Python 2."""
    rows = planes(images)
    content = rows.tobytes()

    def text(word: str) -> bytes:
        return b"U" + bytes([len(word)]) + word.encode()

    def number(value: int) -> bytes:
        return b"M" + struct.pack("<H", value)

    dtype = (
        b"cnumpy\ndtype\nq\x07" + text("u1") + b"K\x00K\x01\x87R(K\x03" + text("|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )  # fmt: skip
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x04cnumpy\nndarray\nq\x05K\x00\x85U\x01b\x87R"
        b"(K\x01" + number(rows.shape[0]) + number(rows.shape[1]) + b"\x86" + dtype + b"\x89T"
        + struct.pack("<I", len(content)) + content + b"tb"
    )  # fmt: skip
    listed = b"]q\x08(" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    names = b"]q\x09(" + b"".join(text(f"a_{n}.png") for n in range(len(labels))) + b"e"
    return (
        b"\x80\x02}q\x01(" + text("batch_label") + text("training batch 1 of 5")
        + text("labels") + listed + text("data") + array + text("filenames") + names + b"u."
    )  # fmt: skip


def cifar(folder: Path, form: str, count: int = 6) -> tuple[np.ndarray, np.ndarray]:
    images, labels = cifar_arrays(count)
    folder.mkdir(parents=True, exist_ok=True)
    halves = {"data_batch_1": slice(0, count // 2), "data_batch_2": slice(count // 2, count)}
    for name, rows in {**halves, "test_batch": slice(0, count)}.items():
        if form == "python":
            content = python2_pickle(images[rows], labels[rows].tolist())
            (folder / name).write_bytes(content)
        elif form == "binary":
            table = np.concatenate([labels[rows, None], planes(images[rows])], 1)
            (folder / f"{name}.bin").write_bytes(table.astype(np.uint8).tobytes())
        else:
            flat = images[rows].reshape(-1, 1024, 3)
            Image.fromarray(flat).save(folder / f"{name}.png")
    if form == "png":
        (folder / "train_lables.json").write_text(json.dumps(labels.tolist()))
        (folder / "test_lables.json").write_text(json.dumps(labels.tolist()))
    if form == "python":
        (folder / "batches.meta").write_bytes(b"\x80\x02}q\x01U\x0blabel_names]s.")
    return images, labels


def picture(seed: int = 0, size: tuple[int, int] = (24, 20), mode: str = "RGB") -> Image.Image:
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (4, 4, 3), np.uint8)
    return Image.fromarray(coarse).resize(size).convert(mode)


def encoded(image: Image.Image, form: str = "JPEG") -> bytes:
    out = io.BytesIO()
    image.save(out, form)
    return out.getvalue()


def photos(folder: Path, classes: int = 3, each: int = 4) -> None:
    for split, count in (("train", each), ("validation", max(1, each // 2))):
        for label in range(classes):
            held = folder / split / f"c{label}"
            held.mkdir(parents=True)
            for number in range(count):
                image = picture(100 * label + number, (20 + number, 24 + label))
                (held / f"{label}_{number}.jpg").write_bytes(encoded(image))


def packed(files: dict[str, bytes], zipped: bool = False) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz" if zipped else "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def imagenet_files() -> tuple[dict[str, dict[str, bytes]], dict[str, bytes], list[str]]:
    """Training images by synset, validation images, and the synset of each of these."""
    train = {
        synset: {
            f"{synset}_{number}.JPEG": encoded(picture(10 * label + number, (30, 24)))
            for number in range(4)
        }
        for label, synset in enumerate(SYNSETS)
    }
    # The two kinds of damage that the real set has.
    train["n02105855"]["n02105855_2933.JPEG"] = encoded(picture(7), "PNG")
    train["n01440764"]["n01440764_1309.JPEG"] = encoded(picture(8, mode="CMYK"))
    validation = {
        f"ILSVRC2012_val_{number:08d}.JPEG": encoded(picture(50 + number, (26, 22)))
        for number in range(1, 8)
    }
    truth = [SYNSETS[(2 * number) % 3] for number in range(7)]
    return train, validation, truth


def meta_mat() -> bytes:
    """A meta.mat as MATLAB writes it: one compressed array of structs."""
    import scipy.io

    fields = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O")]
    rows = np.zeros((len(DEVKIT_NUMBERS) + 1, 1), fields)
    for row, (synset, number) in enumerate(DEVKIT_NUMBERS.items()):
        rows[row, 0] = (np.uint8(number), synset, f"words of {synset}, more", np.uint8(0))
    rows[-1, 0] = (np.uint8(4), "n00001740", "an inner node", np.uint8(2))
    out = io.BytesIO()
    scipy.io.savemat(out, {"synsets": rows}, do_compression=True)
    return out.getvalue()


def imagenet(folder: Path) -> list[str]:
    """ImageNet in miniature: archive of archives, flat archive, development kit."""
    train, validation, truth = imagenet_files()
    folder.mkdir()
    inner = {f"{synset}.tar": packed(files) for synset, files in train.items()}
    (folder / "ILSVRC2012_img_train.tar").write_bytes(packed(inner))
    shuffled = dict(sorted(validation.items(), key=lambda item: item[0][::-1]))
    (folder / "ILSVRC2012_img_val.tar").write_bytes(packed(shuffled))
    numbers = "".join(f"{DEVKIT_NUMBERS[synset]}\n" for synset in truth)
    devkit = {
        "ILSVRC2012_devkit_t12/readme.txt": b"words\n",
        "ILSVRC2012_devkit_t12/data/meta.mat": meta_mat(),
        "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt": numbers.encode(),
    }
    (folder / "ILSVRC2012_devkit_t12.tar.gz").write_bytes(packed(devkit, zipped=True))
    return truth
