"""ResNet-20 on CIFAR-10 in plain fp32 PyTorch with the numbers of cifar-fast.

    python benchmarks/peer_cifar.py FOLDER [--epochs 16] [--threads auto]

Prints one JSON line; the seconds are of training, without evaluation, as convdyno's are.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from convdyno.data.detect import open_source
from convdyno.data.source import DecodedImages
from convdyno.trial.recipes import find

RECIPE = find("cifar-fast")


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut that is padded with zeros."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.stride, self.more = stride, width - before

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        if self.stride > 1:
            half = self.more // 2
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, self.more - half))
        return F.relu(y + x)


def resnet20() -> nn.Module:
    """He's of 2015."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    before = 16
    for stage, width in enumerate((16, 32, 64)):
        for number in range(3):
            layers.append(Block(before, width, 2 if stage and not number else 1))
            before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def loaded(folder: str, split: str) -> tuple[Tensor, Tensor]:
    """All images of a split in memory, from -1 to 1."""
    source = open_source(folder, split)  # type: ignore[arg-type]
    assert isinstance(source, DecodedImages)
    pixels = torch.from_numpy(source.images).permute(0, 3, 1, 2).float() / 127.5 - 1
    return pixels.contiguous(), torch.from_numpy(source.labels).long()


def augmented(images: Tensor) -> Tensor:
    """Four black pixels around each image, a random crop, mirrored or not."""
    count = len(images)
    padded = F.pad(images, (4, 4, 4, 4), value=-1.0)
    out = torch.empty_like(images)
    down, right = torch.randint(0, 9, (2, count)).tolist()
    for i in range(count):
        out[i] = padded[i, :, down[i] : down[i] + 32, right[i] : right[i] + 32]
    mirrored = torch.rand(count) < 0.5
    out[mirrored] = out[mirrored].flip(3)
    return out


def main() -> None:
    """Train, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=float, default=RECIPE.epochs)
    parser.add_argument("--threads", default="auto")
    given = parser.parse_args()
    if given.threads != "auto":
        torch.set_num_threads(int(given.threads))
    torch.manual_seed(0)
    images, labels = loaded(given.folder, "train")
    net, rule, batch = resnet20(), RECIPE.optimiser, RECIPE.batch or 128
    kernels = [p for p in net.parameters() if p.ndim > 1]
    others = [p for p in net.parameters() if p.ndim == 1]
    optimiser = torch.optim.SGD(
        [
            {"params": kernels, "weight_decay": rule.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=rule.rate,
        momentum=rule.momentum,
        nesterov=rule.nesterov,
    )
    per_epoch = len(images) // batch
    steps = max(1, round(given.epochs * per_epoch))
    order = torch.randperm(len(images))
    start = time.perf_counter()
    for step in range(steps):
        place = step % per_epoch
        if not place:
            order = torch.randperm(len(images))
            print(f"epoch {step // per_epoch}", file=sys.stderr, flush=True)
        chosen = order[place * batch : (place + 1) * batch]
        for group in optimiser.param_groups:
            group["lr"] = rule.rate * RECIPE.schedule.multiple(step / per_epoch, given.epochs)
        scores = net(augmented(images[chosen]))
        loss = F.cross_entropy(scores, labels[chosen], label_smoothing=rule.label_smoothing)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    seconds = time.perf_counter() - start
    net.eval()
    images, labels = loaded(given.folder, "validation")
    with torch.no_grad():
        parts = zip(images.split(500), labels.split(500), strict=True)
        right = sum(int((net(x).argmax(1) == y).sum()) for x, y in parts)
    told = {"seconds": seconds, "images": steps * batch, "top1": right / len(labels)}
    print(json.dumps(told | {"loss": loss.item(), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
