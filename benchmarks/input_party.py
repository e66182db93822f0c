"""One way of making batches, in a process of its own: told how many, answers how long it took.

The answer: seconds, own processor seconds, the share of its cores' time that others had.

python benchmarks/input_party.py '{"kind": "ours", "decoder": "native", "folder": "/tmp/set", ...}'
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIZE = 224
BATCH = 64
LEAD = 4
"""Batches before the clock starts: more than any party makes ahead."""


def ours(folder: Path, threads: int, how: dict[str, Any]) -> Iterator[Any]:
    """convdyno's pipeline from TFRecord files."""
    from convdyno.data.augment import Transform
    from convdyno.data.detect import open_source
    from convdyno.data.pipeline import Pipeline

    decoder = how.pop("decoder")
    source = open_source(str(folder / "records"), "train")
    return Pipeline(
        source, batch=BATCH, image=(SIZE, SIZE, 3), train=True, threads=threads, decoder=decoder,
        transform=Transform(**how),
    )  # fmt: skip


def tf_data(folder: Path, threads: int, how: dict[str, Any]) -> Iterator[Any]:
    """tf.data from the same TFRecord files."""
    from convdyno.engines.tensorflow.loader import Treatment, record_batches

    files = sorted((folder / "records").glob("train-*"))
    look = Treatment((SIZE, SIZE), area=(0.1, 1.0), aspect=(0.8, 1.25), **how)
    # A small shuffle: filling a larger one would be the first thing that is timed.
    return record_batches(files, look, batch=BATCH, threads=threads, shuffled=2 * BATCH)


def torch(folder: Path, threads: int, how: dict[str, Any]) -> Iterator[Any]:
    """torch's DataLoader and Pillow from the same images as files."""
    import torch as framework

    from convdyno.engines.torch.loader import Treatment, file_batches

    framework.set_num_threads(1)
    items = [(str(f), 0) for f in sorted((folder / "files").iterdir())]
    # On one core a worker process only adds copying.
    workers = 0 if threads == 1 else threads
    return file_batches(items, Treatment((SIZE, SIZE), **how), batch=BATCH, workers=workers)


def whole(folder: Path, threads: int, how: dict[str, Any]) -> Iterator[Any]:
    """Nothing but decoding whole images that are in memory, by libjpeg-turbo."""
    import simplejpeg

    files = [f.read_bytes() for f in sorted((folder / "files").iterdir())]
    room = bytearray(1 << 22)
    endless = itertools.cycle(files)
    while True:
        for data in itertools.islice(endless, BATCH):
            simplejpeg.decode_jpeg(data, "RGB", buffer=room, **how)
        yield room


KINDS = {"ours": ours, "tf_data": tf_data, "torch": torch, "whole": whole}


def busy() -> float:
    """Seconds that this process's cores have been busy, whoever used them."""
    mine = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    ticks = sum(sum(map(int, row[1:4])) + sum(map(int, row[6:9])) for row in rows if row[0] in mine)
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Answer each number of batches on standard input with the seconds they took."""
    # A party that is stopped would outlive a parent that is killed.
    parent_death_signal = 1
    ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)
    told = json.loads(sys.argv[1])
    kind, folder, threads = told.pop("kind"), Path(told.pop("folder")), told.pop("threads")
    batches = KINDS[kind](folder, threads, told)
    next(batches)
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in itertools.islice(batches, LEAD):
            pass
        start, own, all_of_it = time.perf_counter(), time.process_time(), busy()
        for _ in itertools.islice(batches, int(line)):
            pass
        seconds, own = time.perf_counter() - start, time.process_time() - own
        foreign = (busy() - all_of_it - own) / (seconds * len(os.sched_getaffinity(0)))
        print(seconds, own, foreign, flush=True)


if __name__ == "__main__":
    main()
