"""The tests as `make` runs them, in parts.

    python tests/parts.py              # all that guards main
    python tests/parts.py --all        # what is too long for every change as well
    python tests/parts.py --part stats # one layer; names as the folders of src/convdyno and tests
    python tests/parts.py --shuffled 3 # the quick ones three times, each time in another order

Tests of the cluster mostly wait, so they run beside the others; what they print comes at the end.
Afterwards: the slowest tests, and how long each part took.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".make" / "tests"
SLOWEST = 15
LONGEST_SECONDS = 60
"""A test of every change that takes longer is told of; it fails nothing, as machines are busy."""
SEVERAL = ("-n3", "--dist")
"""More processes than cores: many tests wait for what they have started."""
NOTHING = 5
"""What pytest ends with when there is no such test."""


@dataclass
class Part:
    """Some of the tests, run by one pytest."""

    name: str
    choice: str
    more: tuple[str, ...] = (*SEVERAL, "worksteal")
    process: subprocess.Popen[bytes] | None = None
    seconds: float = 0.0

    @property
    def _junit(self) -> Path:
        return KEPT / f"{self.name}.xml"

    def start(self, log: Path | None = None) -> None:
        """Begin; what it prints goes to the terminal, or to a file."""
        self._began = time.monotonic()
        self._junit.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-rs", f"--junitxml={self._junit}", *self.more]
        if log is None:
            print(f"== {self.name}: pytest {' '.join(self.more)} -m '{self.choice}'", flush=True)
        out = log.open("wb") if log else None
        self.process = subprocess.Popen(
            [*command, "-m", self.choice], cwd=ROOT, stdout=out, stderr=out
        )

    def finish(self) -> bool:
        """Wait for the end; whether all passed."""
        assert self.process is not None
        code = self.process.wait()
        self.seconds = time.monotonic() - self._began
        if self._junit.exists():  # It may have ended long ago, beside the others.
            self.seconds = float(next(xml.parse(self._junit).iter("testsuite")).get("time", 0))
        return code in (0, NOTHING)

    def tests(self) -> list[tuple[float, str]]:
        """Seconds and name of each test."""
        if not self._junit.exists():
            return []
        return [
            (float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}")
            for case in xml.parse(self._junit).iter("testcase")
        ]


def all_parts(*, long: bool) -> tuple[Part, list[Part]]:
    """What runs beside the others, and these one after the other."""
    also = "" if long else " and not long"
    alike = ("tests/engines", "tests/weights")
    zoo = "tests/engines/test_certified_zoo.py"
    others = tuple(f"--ignore={folder}" for folder in alike)
    beside = Part("cluster", f"cluster{also}", ("tests/cluster",))
    return beside, [
        Part("quick", f"not slow{also}"),
        Part("engines", f"slow{also}", (*SEVERAL, "loadfile", *alike, f"--ignore={zoo}")),
        Part("slow", f"slow and not cluster{also}", (*SEVERAL, "worksteal", *others)),
        # Its workers fill the memory.
        Part("zoo", f"slow{also}", (zoo,)),
    ]


def folders(name: str) -> list[str]:
    """Where the tests of a layer are; a sentence if there is no such layer."""
    here = {path.name for path in (ROOT / "tests").iterdir() if list(path.glob("test_*.py"))}
    if name not in here:
        sys.exit(f"no part of the tests is called {name!r}: {', '.join(sorted(here))}")
    return [f"tests/{name}"]


def run(parts: list[Part], beside: Part | None = None) -> bool:
    """Run parts one after the other; whether all passed."""
    KEPT.mkdir(parents=True, exist_ok=True)
    log = KEPT / "beside.log"
    if beside:
        beside.start(log)
    passed = []
    for part in parts:
        part.start()
        passed.append(part.finish())
    if beside:
        passed.append(beside.finish())
        print(f"== {beside.name}, beside the others\n{log.read_text()}")
        parts = [*parts, beside]
    tests = sorted((test for part in parts for test in part.tests()), reverse=True)
    print(f"== the {SLOWEST} slowest tests")
    for seconds, name in tests[:SLOWEST]:
        print(f"{seconds:8.1f} s  {name}")
    if too_long := sum(seconds > LONGEST_SECONDS for seconds, _ in tests):
        print(f"mind: {too_long} took longer than {LONGEST_SECONDS} s: shorten or mark them `long`")
    print("== parts")
    for part, well in zip(parts, passed, strict=True):
        outcome = "passed" if well else "FAILED"
        print(f"{part.seconds:8.1f} s  {part.name}: {len(part.tests())} tests, {outcome}")
    return all(passed)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="what is long too")
    parser.add_argument("--part", default="", help="one layer")
    parser.add_argument("--shuffled", type=int, default=0, help="the quick ones, so often")
    given = parser.parse_args()
    if given.part:
        choice = "slow or not slow" if given.all else "not long"
        well = run([Part(given.part, choice, tuple(folders(given.part)))])
    elif given.shuffled:
        seeds = [str(time.time_ns() % 10**6 + number) for number in range(given.shuffled)]
        shuffled = [
            Part(f"seed-{seed}", "not slow and not long", ("-n2", "-x", "--shuffle", seed))
            for seed in seeds
        ]
        well = run(shuffled)
    else:
        beside, parts = all_parts(long=given.all)
        well = run(parts, beside)
    sys.exit(not well)


if __name__ == "__main__":
    main()
