"""Networks as a PyTorch user writes them by hand: the peers of our torch engine."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class DeepMnist(nn.Module):
    """The network of the Deep MNIST tutorial."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc1 = nn.Linear(7 * 7 * 64, 1024)
        self.dropout = nn.Dropout(0.5)
        self.fc2 = nn.Linear(1024, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x), inplace=True), 2)
        x = F.max_pool2d(F.relu(self.conv2(x), inplace=True), 2)
        x = F.relu(self.fc1(x.flatten(1)), inplace=True)
        return self.fc2(self.dropout(x))


class Bottleneck(nn.Module):
    """ResNet's bottleneck with the stride on the 3x3 convolution (v1.5)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module | None = None
        if stride != 1 or inputs != 4 * width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet50(nn.Module):
    """ResNet-50 v1.5."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        blocks: list[nn.Module] = []
        inputs = 64
        for width, depth in zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True):
            for unit in range(depth):
                stride = 2 if unit == 0 and width > 64 else 1
                blocks.append(Bottleneck(inputs, width, stride))
                inputs = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


def from_torchvision(name: str, **options: float) -> nn.Module:
    """torchvision's own model."""
    model: nn.Module = getattr(_models(), name)(weights=None, **options)
    return model


@cache
def _models() -> Any:
    # Stubs stand for the compiled ops that the CPU's torch lacks; they last as long as `library`.
    library = torch.library.Library("torchvision", "DEF")
    for op in ("nms", "qnms"):
        library.define(f"{op}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    models = importlib.import_module("torchvision").models
    models.kept = library
    return models


def bare_step(
    model: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    precision: str,
    channels_last: bool,
    adam: bool = False,
    fused: bool = True,
) -> Callable[[], None]:
    """One training step as an expert writes it, ready to call."""
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    extra = {"fused": True} if fused else {}
    optimiser = (
        torch.optim.Adam(model.parameters(), 1e-4, weight_decay=1e-4, **extra)
        if adam
        else torch.optim.SGD(
            model.parameters(), 1e-3, momentum=0.9, nesterov=True, weight_decay=1e-4, **extra
        )
    )
    model.train()

    def forward() -> torch.Tensor:
        return F.cross_entropy(model(images).float(), labels)

    def step() -> None:
        if precision == "fp32":
            loss = forward()
        else:
            with torch.autocast("cpu", torch.bfloat16):
                loss = forward()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step
