"""Runs of `convdyno train` on a tiny set, in processes that tests stop and kill."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import in_process
import numpy as np
from safetensors import safe_open

PLAIN = "mine:plain"
RICH = "mine:rich"
NETWORKS = """\
def plain(net, classes):
    x = net.image.conv_norm_relu(4, 3, stride=2).conv_norm_relu(4, 3)
    return x.mean().logits(classes).done()


def rich(net, classes):
    x = net.image.conv_norm_relu(8, 3, stride=2).conv_norm_relu(8, 3, stride=2)
    return x.mean().dropout(0.3).logits(classes).done()
"""
SIZE = ("--image-size", "14", "--batch", "8", "--rate", "0.02")
EVERYTHING = (
    *SIZE, "--optimiser", "sgd", "--precision", "bf16", "--ema", "0.99", "--clip-norm", "5",
    "--label-smoothing", "0.1", "--schedule", "cosine", "--warmup", "1", "--weight-decay", "1e-4",
)  # fmt: skip


def idx(values: np.ndarray) -> bytes:
    head = b"\0\0\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(np.uint8).tobytes()


def bars(folder: Path, train: int = 40, test: int = 13, classes: int = 4) -> Path:
    """Noisy pictures as idx files, each with a bright bar whose height is its class."""
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


def prepare(folder: Path, **counts: int) -> None:
    """The data and the networks that the runs of a test are about."""
    bars(folder / "bars", **counts)
    (folder / "mine.py").write_text(NETWORKS)


def command(network: str, run: str, *more: str) -> list[str]:
    words = ["train", network, "--data", "bars", "--log-dir", run, *more]
    return [sys.executable, "-m", "convdyno", *words]


def start(folder: Path, network: str, run: str, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(network, run, *more), cwd=folder, stderr=subprocess.PIPE, text=True
    )


def finish(folder: Path, network: str, run: str, *more: str, code: int = 0) -> str:
    """Run to the end, inside this process; what was said."""
    done, _, said = in_process.command(folder, *command(network, run, *more)[3:])
    assert done == code, said
    return said


def wait_for_row(process: subprocess.Popen[str], of: int = 0, step: int = 0) -> None:
    """Read the table until it has a number of rows more, or has come to a step."""
    assert process.stderr is not None
    rows = 0
    for line in process.stderr:
        row = re.fullmatch(r" *([0-9]+) +[0-9]+( +[0-9.]+){3}\n", line)
        rows += row is not None
        if rows >= of and (not step or (row and int(row[1]) >= step)):
            return


def stop_after(process: subprocess.Popen[str], step: int, number: signal.Signals) -> int:
    """Send a signal once the table has come to a step; the exit code."""
    wait_for_row(process, step=step)
    os.kill(process.pid, number)
    process.communicate(timeout=300)
    return process.returncode


def checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.safetensors"))


def arrays(path: Path) -> dict[str, np.ndarray]:
    with safe_open(path, "np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def standing(path: Path) -> dict[str, Any]:
    """The header's words but the time that training took."""
    with safe_open(path, "np") as file:
        words = dict(file.metadata())
    return words | {"standing": {**json.loads(words["standing"]), "seconds": None}}


def evaluations(folder: Path) -> list[dict[str, Any]]:
    """What every evaluation found, whenever that was."""
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return [
        {**line, "time": None, "seconds": None} for line in lines if line["kind"] == "evaluated"
    ]


def assert_same(one: Path, other: Path) -> None:
    """Two runs came to the same, to the bit."""
    for name in (checkpoints(one)[-1].name, "best.safetensors"):
        left, right = arrays(one / name), arrays(other / name)
        assert left.keys() == right.keys()
        different = [n for n in left if left[n].tobytes() != right[n].tobytes()]
        assert not different, (name, different)
        assert standing(one / name) == standing(other / name)
    assert evaluations(one) == evaluations(other)
