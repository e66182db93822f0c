"""What it takes to get a trial going on three hosts over ssh, besides the framework's own imports.

python benchmarks/ssh_launch.py

On the lab of tests/cluster (root on Linux), with the clockwork engine, which has no framework.
The first time, convdyno is copied to the hosts; from then on it is there.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))

from lab import Lab

from convdyno.launch.bundle import bundle
from convdyno.launch.nodes import read_nodes
from convdyno.launch.remote_host import Remote
from convdyno.launch.ssh import SshLauncher
from convdyno.trial.spec import Trial

TIMES = 5
LIMIT_SECONDS = 5.0


@contextmanager
def timed(what: str, seconds: dict[str, float]) -> Iterator[None]:
    """Note how long something takes."""
    start = time.perf_counter()
    yield
    seconds[what] = time.perf_counter() - start


def launch(lab: Lab, logs: Path) -> dict[str, float]:
    """The seconds of each part of one launch."""
    seconds: dict[str, float] = {}
    bundle.cache_clear()
    nodes = read_nodes(lab.nodes)
    with closing(SshLauncher(nodes, Remote(ssh_config=lab.ssh_config), logs=logs)) as there:
        with timed("connect", seconds):
            cores = there.cores(3, "cpu")
        trial = Trial(
            network="deepmnist", engine="clockwork", batch=8, devices=3, hosts=3, cores=cores
        )
        with timed("check", seconds):
            there.check([trial])
        with timed("start, meet and load", seconds):
            team = there.start(trial, 20)
            team.ask("open", silence=60, trial=trial.model_dump(mode="json"))
        team.end()
    return seconds


def main() -> None:
    """Print the parts, the first launch and the median of the others."""
    lab = Lab.up()
    try:
        with tempfile.TemporaryDirectory() as logs:
            runs = [launch(lab, Path(logs)) for _ in range(1 + TIMES)]
    finally:
        lab.down()
    first, *again = runs
    middle = {part: sorted(run[part] for run in again)[TIMES // 2] for part in first}
    for part in first:
        print(f"{part:22} first {first[part]:5.2f} s, then {middle[part]:5.2f} s")
    total = sum(first.values())
    print(f"{'all':22} first {total:5.2f} s, then {sum(middle.values()):5.2f} s")
    print(f"limit {LIMIT_SECONDS:.0f} s: {'kept' if total < LIMIT_SECONDS else 'NOT kept'}")


if __name__ == "__main__":
    main()
