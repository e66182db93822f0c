"""What torch's users write to read images: a DataLoader, worker processes and Pillow.

A comparator: it does what torchvision's RandomResizedCrop, RandomHorizontalFlip and ColorJitter do,
without torchvision, so that one can see what the usual way costs beside convdyno's own pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from convdyno.engines.contract import Material, Treatment
from convdyno.errors import NotInstalled, Refused

Batches = Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]
ATTEMPTS = 10
CENTRAL = 0.875


class ImageFiles(Dataset):
    """Image files with their labels."""

    def __init__(self, items: Sequence[tuple[str | Path, int]], look: Treatment) -> None:
        self.items, self.look = items, look

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, label = self.items[index]
        return _looked_at(_pillow().open(path), self.look), label


class ArrayDataset(Dataset):
    """Decoded images (NHWC) with their labels."""

    def __init__(self, images: Any, labels: Any, look: Treatment) -> None:
        self.images, self.labels, self.look = images, labels, look

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pixels = self.images[index]
        picture = _pillow().fromarray(pixels if pixels.shape[-1] == 3 else pixels[..., 0])
        return _looked_at(picture, self.look), int(self.labels[index])


def file_batches(
    items: Sequence[tuple[str | Path, int]], look: Treatment, *, batch: int, **more: Any
) -> Batches:
    """Batches of (path, label) pairs; endless in training.

    `seed`, `workers` (processes; 0 reads in this one) and `prefetch` (batches a worker) may be
    given.
    """
    return _batches(ImageFiles(items, look), look, batch, **more)


def array_batches(images: Any, labels: Any, look: Treatment, *, batch: int, **more: Any) -> Batches:
    """Batches of decoded images; `more` is as for `file_batches`."""
    return _batches(ArrayDataset(images, labels, look), look, batch, **more)


def batches(given: Material) -> Batches:
    """Batches of whatever material a DataLoader's users have: files or arrays."""
    look = given.treatment
    more = {"seed": given.seed, "workers": given.threads, "prefetch": given.prefetch}
    if given.files is not None:
        return file_batches(given.files, look, batch=given.batch, **more)
    if given.arrays is not None:
        return array_batches(*given.arrays, look, batch=given.batch, **more)
    raise Refused(
        "torch's users read folders of images, not TFRecord files: give a folder "
        "(`convdyno data convert ... --to folder`), or use --loader own"
    )


def _batches(
    data: Dataset,
    look: Treatment,
    batch: int,
    *,
    seed: int = 0,
    workers: int = 0,
    prefetch: int = 2,
) -> Batches:
    random = torch.Generator().manual_seed(seed)
    loader = DataLoader(
        data, batch_size=batch, shuffle=look.train, drop_last=look.train, num_workers=workers,
        prefetch_factor=prefetch if workers else None, generator=random,
        persistent_workers=workers > 0,
    )  # fmt: skip
    while True:
        for images, labels in loader:
            yield images.numpy(), labels.numpy()
        if not look.train:
            return


def _looked_at(picture: Any, look: Treatment) -> torch.Tensor:
    picture = picture.convert("RGB" if look.channels == 3 else "L")
    picture = trained(picture, look) if look.train else evaluated(picture, look)
    return torch.from_numpy(np.array(picture).reshape(*look.size, -1))


def trained(picture: Any, look: Treatment) -> Any:
    """A random crop, resized with antialiasing, mirrored or not, its colours distorted or not."""
    height, width = look.size
    left, top, wide, tall = _crop(picture.width, picture.height, look)
    picture = picture.crop((left, top, left + wide, top + tall))
    picture = picture.resize((width, height), _pillow().Resampling.BILINEAR)
    if torch.rand(1) < 0.5:
        picture = picture.transpose(_pillow().Transpose.FLIP_LEFT_RIGHT)
    return _jittered(picture) if look.jitter else picture


def evaluated(picture: Any, look: Treatment) -> Any:
    """The short side resized to size / 0.875, and the centre of that."""
    height, width = look.size
    scale = max(height / picture.height, width / picture.width) / CENTRAL
    size = max(width, round(picture.width * scale)), max(height, round(picture.height * scale))
    picture = picture.resize(size, _pillow().Resampling.BILINEAR)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    return picture.crop((left, top, left + width, top + height))


def _crop(width: int, height: int, look: Treatment) -> tuple[int, int, int, int]:
    for _ in range(ATTEMPTS):
        area = width * height * torch.empty(1).uniform_(*look.area).item()
        low, high = (math.log(limit) for limit in look.aspect)
        aspect = math.exp(torch.empty(1).uniform_(low, high).item())
        wide, tall = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < wide <= width and 0 < tall <= height:
            left = int(torch.randint(0, width - wide + 1, (1,)))
            return left, int(torch.randint(0, height - tall + 1, (1,))), wide, tall
    return 0, 0, width, height


def _jittered(picture: Any) -> Any:
    from PIL import ImageEnhance

    kinds = ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color
    factors = [
        torch.empty(1).uniform_(low, high).item()
        for low, high in ((1 - 32 / 255, 1 + 32 / 255), (0.5, 1.5), (0.5, 1.5))
    ]
    for step in torch.randperm(4).tolist():
        if step < len(kinds):
            picture = kinds[step](picture).enhance(factors[step])
        elif picture.mode == "RGB":
            picture = _turned(picture, torch.empty(1).uniform_(-0.2, 0.2).item())
    return picture


def _turned(picture: Any, hue: float) -> Any:
    """The hue moved on its circle of 256 steps."""
    first, second, third = picture.convert("HSV").split()
    moved = np.asarray(first) + np.int32(hue * 255).astype(np.uint8)
    merged = _pillow().merge("HSV", (_pillow().fromarray(moved), second, third))
    return merged.convert("RGB")


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise NotInstalled("real images need Pillow: pip install 'convdyno[data]'") from None
    return Image
