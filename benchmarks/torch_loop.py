"""Our torch engine against a bare hand-written PyTorch loop: same network, same settings, one run.

Blocks of both alternate (ABBA) in one process; what is printed is the ratio of their rates with its
interval over alternations. The last line compares our best settings with PyTorch's defaults.

    python benchmarks/torch_loop.py [--seconds 60] [--networks mobilenet2,convnext-tiny]

The peers of the networks of today are torchvision's own models.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from peer_torch import DeepMnist, ResNet50, bare_step, from_torchvision
from side_by_side import race

from convdyno.blueprint.weights import initial_weights
from convdyno.data.synthetic import synthetic_batch
from convdyno.engines import registry
from convdyno.trial.spec import make_trial
from convdyno.zoo.registry import build

PEERS = {
    "deepmnist": DeepMnist,
    "resnet50-v1.5": ResNet50,
    "mobilenet2": partial(from_torchvision, "mobilenet_v2"),
    # Their blocks are not left out at random here: ours have no stochastic depth.
    "efficientnet-b0": partial(from_torchvision, "efficientnet_b0", stochastic_depth_prob=0.0),
    "convnext-tiny": partial(from_torchvision, "convnext_tiny", stochastic_depth_prob=0.0),
}
CASES = [
    ("deepmnist", 50, "fp32"),
    ("deepmnist", 50, "bf16"),
    ("resnet50-v1.5", 8, "fp32"),
    ("resnet50-v1.5", 8, "bf16"),
    *(
        (network, 8, precision)
        for network in ("mobilenet2", "efficientnet-b0", "convnext-tiny")
        for precision in ("fp32", "bf16")
    ),
]


def ours(network: str, batch: int, precision: str, layout: str = "auto") -> Callable[[], None]:
    """Our training step, ready to call."""
    adam = network == "deepmnist"
    optimiser = {"kind": "adam", "rate": 1e-4} if adam else {}
    trial = make_trial(
        network=network, engine="torch", batch=batch, precision=precision, layout=layout,
        optimiser=optimiser,
    )  # fmt: skip
    blueprint = build(network)
    session = registry.load("torch").open(blueprint, trial, initial_weights(blueprint))
    placed = session.place(*synthetic_batch(blueprint.image, blueprint.classes, batch, 0))
    return lambda: session.train_step(placed)


def bare(
    network: str, batch: int, precision: str, channels_last: bool, fused: bool
) -> Callable[[], None]:
    """A hand-written step on the same images, ready to call."""
    blueprint = build(network)
    images, labels = synthetic_batch(blueprint.image, blueprint.classes, batch, 0)
    pixels = torch.from_numpy((images / np.float32(127.5) - 1).astype(np.float32))
    return bare_step(
        PEERS[network](), pixels.permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels),
        precision=precision, channels_last=channels_last, adam=network == "deepmnist", fused=fused,
    )  # fmt: skip


def main() -> None:
    """Race every case and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each race")
    parser.add_argument("--networks", default=",".join(PEERS), help="a comma list")
    given = parser.parse_args()
    seconds, networks = given.seconds, given.networks.split(",")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {time.strftime('%F')}")
    for network, batch, precision in CASES:
        if network not in networks:
            continue
        pair = (
            ours(network, batch, precision),
            bare(network, batch, precision, channels_last=True, fused=True),
        )
        print(f"{network} batch {batch} {precision}, ours / bare loop: {race(*pair, seconds)}")
    for network, batch in (("deepmnist", 50), ("resnet50-v1.5", 8)):
        if network not in networks:
            continue
        pair = (
            ours(network, batch, "bf16"),
            bare(network, batch, "fp32", channels_last=False, fused=False),
        )
        print(f"{network} batch {batch}, our bf16 / PyTorch's defaults: {race(*pair, seconds)}")


if __name__ == "__main__":
    main()
