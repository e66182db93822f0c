"""Commands as the docs show them, and a small form of each that runs here within seconds.

An option that is given twice has its last value, so most of a small form is added at the end.
"""

import re
import shlex
from pathlib import Path
from typing import Any

import runs
from small_photos import photos

DOCS = Path(__file__).parents[1] / "docs"
COMMAND = re.compile(r"^(?:\$ )?((?:mpiexec -np \d+ )?convdyno .*?)(?:\s+#.*)?$", re.MULTILINE)

STAND_INS = {"DIR": "bars", "FILE": "sweep.toml"}
MOST = {"--devices": 2, "--per-node": 1, "--max-devices": 2}
"""Larger numbers are made so small."""
QUICK = ["--engine", "clockwork", "--width", "0.1", "--budget", "30s"]
SMALL = {
    "bench": [*QUICK, "--rounds", "1", "--within", "any"],
    "gate": [*QUICK, "--rounds", "2", "--within", "50%", "--no-floor"],
    "train": [*QUICK[:4], "--data", "bars", "--epochs", "1", "--batch", "8"],
    "eval": ["--engine", "clockwork"],
    "doctor": ["--quick"],
    "data speed": ["--seconds", "0.2"],
}
"""What is added to a command."""
MORE = {
    "--seeds": ["--seeds", "2"],
    "--batch max": ["--budget", "10s", "--device", "most=40"],
}
"""What is added where a command has these words."""
SWEEP = """\
network = "trivial"
engine = "clockwork"
batch = [1, 2]
budget = "30s"
within = "any"
rounds = 1
"""
OWN = """\
def tiny(net, classes):
    return net.image.conv_norm_relu(16, 3, pad=1).mean().logits(classes).done()
"""


def fenced(text: str) -> list[str]:
    """The commands of a page's blocks."""
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in COMMAND.findall(block.replace("\\\n", " "))]


def tabled(text: str) -> list[str]:
    """What stands as code in the last column of a page's tables."""
    rows = re.findall(r"^\|.*\| (.*?) \|$", text, re.MULTILINE)
    return [code for cell in rows for code in re.findall(r"`([^`]+)`", cell)]


def commands(text: str) -> list[str]:
    """The commands of both, each once."""
    return list(dict.fromkeys([*fenced(text), *filter(COMMAND.fullmatch, tabled(text))]))


def sections(text: str) -> dict[str, str]:
    """The parts of a page by their titles."""
    _, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return dict(part.split("\n", 1) for part in parts)


def prepare(folder: Path) -> None:
    """The data, the networks and the sweep that the commands speak of."""
    runs.prepare(folder)
    photos(folder / "photos", ["cat", "dog"])
    (folder / "sweep.toml").write_text(SWEEP)
    (folder / "mypackage").mkdir()
    (folder / "mypackage" / "nets.py").write_text(OWN)


def small(line: str, stand_ins: dict[str, str] = STAND_INS) -> list[str]:
    """The words of a command's small form, without `convdyno`."""
    words = [stand_ins.get(word, word) for word in shlex.split(line.partition("convdyno ")[2])]
    for at, word in enumerate(words[:-1]):
        if word in MOST:
            counts = {min(int(count), MOST[word]) for count in words[at + 1].split(",")}
            words[at + 1] = ",".join(map(str, sorted(counts)))
    added = SMALL.get(words[0]) or SMALL.get(" ".join(words[:2])) or []
    return words + added + [word for key, more in MORE.items() if key in line for word in more]


def run(line: str, convdyno: Any, folder: Path) -> None:
    """Run a command's small form, and before it what it needs to find."""
    words = small(line)
    if words[0] == "results" and not (folder / "results").exists():
        run("convdyno bench trivial", convdyno, folder)
    if words[0] == "eval" and not (folder / words[1]).exists():
        run(f"convdyno train deepmnist --log-dir {words[1]}", convdyno, folder)
    if words[0] == "gate":
        base = words[words.index("--base") + 1]
        measure = small(f"convdyno bench {words[1]} --out {base}")
        assert convdyno(*measure, "--rounds", "5").code == 0
    done = convdyno(*words)
    assert done.code == 0, f"{line}\n{done.err}"
