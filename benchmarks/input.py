"""How fast batches of real images are made, beside tf.data, torch's DataLoader and bare decoding.

python benchmarks/input.py [--rounds 8] [--photographs /usr/share/backgrounds] [--set FOLDER]

Every party is a live process, pinned to one core (or to two), stopped while another is timed; in
each round all of them are timed once, in an order that is reversed in the next. A ratio is the mean
over rounds of the ratio within a round. The images are crops of photographs where there are any
(Debian's lomiri-wallpapers-*, mate-backgrounds), and made ones elsewhere; about 480x405, 100 KB.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from input_party import BATCH
from side_by_side import Ratio

from convdyno.stats import t_distribution

IMAGES = 768
SHARDS = 4
BYTES = 100_000
DISTURBED = 0.04
"""The share of its cores' time that others may take from a party."""
NVCNN, TORCH = {"crop": "nvcnn"}, {"crop": "torch", "resize": "antialiased", "fidelity": "accurate"}
PARTIES: dict[str, dict[str, Any]] = {
    "whole decode": {"kind": "whole", "fastdct": True, "fastupsample": True},
    "whole decode, accurate": {"kind": "whole"},
    "native": {"kind": "ours", "decoder": "native", **NVCNN},
    "simplejpeg": {"kind": "ours", "decoder": "simplejpeg", **NVCNN},
    "tf.data": {"kind": "tf_data"},
    "native, colours": {"kind": "ours", "decoder": "native", "colour": "folded", **NVCNN},
    "native, exact colours": {"kind": "ours", "decoder": "native", "colour": "exact", **NVCNN},
    "simplejpeg, colours": {"kind": "ours", "decoder": "simplejpeg", "colour": "folded", **NVCNN},
    "tf.data, colours": {"kind": "tf_data", "jitter": True},
    "native, as torch": {"kind": "ours", "decoder": "native", **TORCH},
    "simplejpeg, as torch": {"kind": "ours", "decoder": "simplejpeg", **TORCH},
    "torch": {"kind": "torch"},
    "native, as torch, colours": {
        "kind": "ours", "decoder": "native", "colour": "folded", **TORCH,
    },
    "torch, colours": {"kind": "torch", "jitter": True},
    "native, two cores": {"kind": "ours", "decoder": "native", "threads": 2, **NVCNN},
    "simplejpeg, two cores": {"kind": "ours", "decoder": "simplejpeg", "threads": 2, **NVCNN},
    "tf.data, two cores": {"kind": "tf_data", "threads": 2},
}  # fmt: skip
RATIOS = [
    ("native", "tf.data", 1.1),
    ("native", "whole decode", 1.0),
    ("simplejpeg", "tf.data", 0.85),
    ("native, colours", "tf.data, colours", 1.7),
    ("native, exact colours", "tf.data, colours", None),
    ("simplejpeg, colours", "tf.data, colours", None),
    ("native, as torch", "torch", 2.0),
    ("simplejpeg, as torch", "torch", None),
    ("native, as torch, colours", "torch, colours", None),
    ("native, two cores", "native", 1.8),
    ("simplejpeg, two cores", "simplejpeg", None),
    ("tf.data, two cores", "tf.data", None),
]


class Party:
    """A live process that makes batches when asked."""

    def __init__(self, told: dict[str, Any], folder: Path, cores: list[int]) -> None:
        threads = told.get("threads", 1)
        command = [sys.executable, str(Path(__file__).with_name("input_party.py"))]
        command.append(json.dumps({"threads": 1, **told, "folder": str(folder)}))
        environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": "",
        }  # fmt: skip
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores[-threads:])
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, start_new_session=True, env=environment,
        )  # fmt: skip
        os.sched_setaffinity(0, before)
        assert self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit(f"{told} did not start")
        self._signal(signal.SIGSTOP)

    def rates(self, batches: int, patience: int = 0) -> tuple[float, float]:
        """Images per second and per processor second; anew where the machine was busy."""
        tries = [self._once(batches)]
        while tries[-1][2] > DISTURBED and len(tries) <= patience:
            time.sleep(2)
            tries.append(self._once(batches))
        seconds, own, _ = min(tries, key=lambda one: one[2])
        return batches * BATCH / seconds, batches * BATCH / own

    def _once(self, batches: int) -> tuple[float, ...]:
        assert self._process.stdin
        assert self._process.stdout
        self._signal(signal.SIGCONT)
        self._process.stdin.write(f"{batches}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        self._signal(signal.SIGSTOP)
        return tuple(map(float, answer))

    def end(self) -> None:
        """Kill it and its workers."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, which: signal.Signals) -> None:
        os.killpg(self._process.pid, which)


def make_set(folder: Path, photographs: Path) -> str:
    """The images as files and as TFRecord; says what they are."""
    from convdyno.data.fake_photos import MadeSet
    from convdyno.data.tf_example import Picture, build_example
    from convdyno.data.tfrecord import RecordWriter

    paths = sorted(p for p in photographs.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    if paths:
        images, what = _crops(paths), f"crops of {len(paths)} photographs"
    else:
        made = MadeSet(IMAGES + 10, 10, (405, 480)).open("train")
        images, what = [bytes(made.read(n).data) for n in range(IMAGES - 76)], "made images"
    (folder / "files").mkdir(parents=True)
    (folder / "records").mkdir()
    for shard in range(SHARDS):
        name = f"train-{shard:05d}-of-{SHARDS:05d}"
        with (folder / "records" / name).open("wb") as file:
            writer = RecordWriter(file)
            for number in range(shard, len(images), SHARDS):
                data = images[number]
                (folder / "files" / f"{number:05d}.jpg").write_bytes(data)
                writer.write(build_example(Picture(encoded=data, label=1 + number % 10)))
    mean = np.mean([len(data) for data in images]) / 1000
    return f"{len(images)} {what}, {mean:.0f} KB each"


def _crops(paths: list[Path]) -> list[bytes]:
    """Parts of photographs at about 480x405, as large in bytes as ImageNet's are."""
    from PIL import Image

    random, found = np.random.default_rng(0), []
    opened = [Image.open(path).convert("RGB") for path in paths]
    while len(found) < IMAGES:
        picture = opened[random.integers(len(opened))]
        width, height = (round(side * random.uniform(0.85, 1.15)) for side in (480, 405))
        most = min(6, picture.width / width, picture.height / height)
        scale = random.uniform(most / 2, most)
        left = random.uniform(0, picture.width - width * scale)
        top = random.uniform(0, picture.height - height * scale)
        box = left, top, left + width * scale, top + height * scale
        part = picture.resize((width, height), Image.Resampling.BICUBIC, box)
        sizes = {}
        for quality in (80, 85, 90, 93, 95, 96, 97, 98, 99):
            out = io.BytesIO()
            part.save(out, "JPEG", quality=quality)
            sizes[quality] = out.getvalue()
        nearest = min(sizes.values(), key=lambda data: abs(len(data) - BYTES))
        # Skies and blurs stay small at any quality.
        if len(nearest) > 0.7 * BYTES:
            found.append(nearest)
    return found


def ratio(a: list[float], b: list[float]) -> Ratio:
    """How many times as fast a is, from rounds in which both were timed."""
    logs = np.log(np.array(a) / np.array(b))
    error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    reach = t_distribution.quantile(0.975, len(logs) - 1) * error
    mean = float(np.mean(logs))
    return Ratio(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), len(logs))


def main() -> None:
    """Make the images, time the parties in rounds, print rates and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--batches", type=int, default=12, help="timed in a round")
    parser.add_argument("--patience", type=int, default=20, help="times that a party is timed anew")
    parser.add_argument("--seconds", type=float, default=480, help="no new round after so long")
    parser.add_argument("--photographs", type=Path, default=Path("/usr/share/backgrounds"))
    parser.add_argument("--set", type=Path, help="keep or find the images here")
    parser.add_argument("--only", help="parties whose names contain one of these, with commas")
    told = parser.parse_args()
    wanted = {
        name: party
        for name, party in PARTIES.items()
        if not told.only or any(word in name for word in told.only.split(","))
    }
    with tempfile.TemporaryDirectory() as spare:
        folder = told.set or Path(spare) / "set"
        print(make_set(folder, told.photographs) if not folder.exists() else folder, flush=True)
        cores = sorted(os.sched_getaffinity(0))
        parties = {name: Party(party, folder, cores) for name, party in wanted.items()}
        rates: dict[str, list[tuple[float, float]]] = {name: [] for name in parties}
        end = time.perf_counter() + told.seconds
        try:
            for party in parties.values():
                party.rates(2)
            for round in range(told.rounds):
                if time.perf_counter() > end:
                    break
                for name in list(parties)[:: 1 if round % 2 else -1]:
                    rates[name].append(parties[name].rates(told.batches, told.patience))
        finally:
            for party in parties.values():
                party.end()
    _print(rates)


def _print(rates: dict[str, list[tuple[float, float]]]) -> None:
    print(f"{'images per second':28} {'clock':>8} {'processor':>10}")
    for name, values in rates.items():
        clock, processor = (
            len(values) / sum(1 / v for v in one) for one in zip(*values, strict=True)
        )
        print(f"{name:28} {clock:8.0f} {processor:10.0f}")
    print(f"\n{'ratio':46} {'wanted':>6}  {'by the clock':38} by processor time")
    for a, b, target in RATIOS:
        if a in rates and b in rates:
            found = [ratio([x[k] for x in rates[a]], [x[k] for x in rates[b]]) for k in (0, 1)]
            # Two cores share no processor time: only the clock tells.
            own = "" if "two cores" in a else str(found[1])
            print(f"{a + ' / ' + b:46} {target or '':>6}  {found[0]!s:38} {own}")


if __name__ == "__main__":
    main()
