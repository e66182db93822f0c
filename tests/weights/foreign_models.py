"""Real models of other libraries with weights that hide no mistake, and what they compute."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights
from convdyno.engines import registry
from convdyno.engines.contract import Trial, normalise

IMAGES = 2
CLOSE = 3e-4
"""float32, summed in another order through up to 200 layers; a mistake is of the order of 1."""
Logits = NDArray[np.float32]


@cache
def torchvision() -> Any:
    """torchvision's models; a stub stands for the compiled ops that the CPU's torch lacks."""
    torch = importlib.import_module("torch")
    library = torch.library.Library("torchvision", "DEF")
    for op in ("nms", "qnms"):
        library.define(f"{op}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _KEEP.append(library)
    return importlib.import_module("torchvision").models


@cache
def timm() -> Any:
    torchvision()
    return importlib.import_module("timm")


_KEEP: list[object] = []


def images_for(blueprint: Blueprint) -> NDArray[np.uint8]:
    """Coarse patterns: the mean of a network's last layer would even out fine noise."""
    height, width, channels = blueprint.image
    coarse = np.random.default_rng(7).integers(0, 256, (IMAGES, 5, 5, channels), np.uint8)
    rows, columns = np.arange(height) * 5 // height, np.arange(width) * 5 // width
    return coarse[:, rows][:, :, columns]


def enliven(model: Any) -> Any:
    """Every weight drawn so that the signal survives and none is at a special value."""
    import torch

    model = model.to_empty(device="cpu")
    random = torch.Generator().manual_seed(5)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for tensor, low, high in (
                (module.weight, 0.7, 1.3),
                (module.bias, -0.2, 0.2),
                (module.running_mean, -0.2, 0.2),
                (module.running_var, 0.6, 1.4),
            ):
                tensor.data.uniform_(low, high, generator=random)
            module.num_batches_tracked.zero_()
        elif isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            deviation = (2 / module.weight[0].numel()) ** 0.5
            module.weight.data.normal_(0, deviation, generator=random)
            if module.bias is not None:
                module.bias.data.uniform_(-0.1, 0.1, generator=random)
        elif isinstance(module, torch.nn.LayerNorm):
            module.weight.data.uniform_(0.7, 1.3, generator=random)
            module.bias.data.uniform_(-0.2, 0.2, generator=random)
        if hasattr(module, "layer_scale"):
            module.layer_scale.data.uniform_(0.2, 0.5, generator=random)
    return model.eval()


def calm(model: Any, images: NDArray[np.uint8]) -> Any:
    """Running statistics near those of some images: else deep gates amplify every rounding."""
    import torch

    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 0.9
    torch_logits(model.train(), images)
    for norm in norms:
        norm.num_batches_tracked.zero_()
    return model.eval()


def torch_logits(model: Any, images: NDArray[np.uint8]) -> Logits:
    """What the library's own model answers to images as convdyno feeds them."""
    import torch

    with torch.no_grad():
        batch = torch.from_numpy(normalise(images).transpose(0, 3, 1, 2).copy())
        return model(batch).numpy()


def our_logits(blueprint: Blueprint, weights: Weights, images: NDArray[np.uint8]) -> Logits:
    """What the torch engine answers."""
    trial = Trial(
        network=blueprint.name, engine="torch", mode="infer", batch=IMAGES, device="cpu", threads=1
    )
    session = registry.load("torch").open(blueprint, trial, weights)
    return session.logits(session.place(images, np.zeros(IMAGES, np.int64)))


def difference(ours: Logits, theirs: Logits) -> float:
    """The largest difference as a share of how much the answers to two images differ."""
    spread = abs(theirs[0] - theirs[1]).max()
    assert spread > 0.01 * abs(theirs).max(), "the images make no difference"
    return float(abs(ours - theirs).max() / spread)
