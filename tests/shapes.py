"""A tiny data set that a network can learn: two digits of 28x28, as idx files."""

import struct
from pathlib import Path

import numpy as np


def idx(values: np.ndarray) -> bytes:
    head = b"\0\0\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(np.uint8).tobytes()


def bars(folder: Path, train: int = 40, test: int = 13, classes: int = 4) -> Path:
    """Noisy pictures, each with a bright bar whose height is its class."""
    random = np.random.default_rng(5)
    folder.mkdir(parents=True)
    for split, count in (("train", train), ("t10k", test)):
        labels = np.arange(count) % classes
        images = random.integers(0, 120, (count, 28, 28))
        for image, label in zip(images, labels, strict=True):
            image[6 * label + 1 : 6 * label + 5] += 120
        (folder / f"{split}-images-idx3-ubyte").write_bytes(idx(images))
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(idx(labels))
    return folder
