"""The script of one job: what is asked for, what ran where, and the trial itself.

It can be read, and given to sbatch again. What comes from users and data is quoted; the only thing
of theirs that is executed is the setup file that they name for it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from convdyno import __version__
from convdyno.errors import UsageError

PLAIN = re.compile(r"[A-Za-z0-9_.,:;=@%+/\[\]|&*()-]+")
"""What a line of options need not quote."""
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))(/.*)?")
"""A folder that a variable of the job names, such as `$LOCAL` or `$SCRATCH/mine`."""
WIDTH = 96


@dataclass(frozen=True)
class Surroundings:
    """What a site's jobs need before they can run, and where they run."""

    folder: Path
    """Where paths begin."""
    python: str
    modules: tuple[str, ...] = ()
    setup: Path | None = None
    """A file of bash that is read first."""


@dataclass(frozen=True)
class Errand:
    """What one job does."""

    name: str
    what: str
    """The trial, in words."""
    header: Mapping[str, str]
    step: Mapping[str, str]
    tasks: int
    words: Sequence[str]
    """Of `convdyno bench`."""
    stage: tuple[str, str] | None
    """The label of a storage, and the folder there to which the data are copied first."""
    files: Path
    """The beginning of the names of all its files."""

    @property
    def script(self) -> Path:
        """What sbatch is given."""
        return self.files.with_suffix(".sh")

    @property
    def log(self) -> Path:
        """What the job writes."""
        return self.files.with_suffix(".log")

    @property
    def marks(self) -> Path:
        """A line when the job begins and one when it ends."""
        return self.files.with_suffix(".marks")


def script(errand: Errand, around: Surroundings) -> str:
    """The whole script."""
    header = {"job-name": errand.name, "output": _pattern(errand.log), "open-mode": "append"}
    lines = [f"#SBATCH {_option(name, value)}" for name, value in header.items()]
    lines += [f"#SBATCH {_option(name, value)}" for name, value in errand.header.items()]
    options = "\n".join(lines)
    return f"""\
#!/bin/bash
# {_comment(errand.what)}
# Written by convdyno {__version__}. To repeat it: {_comment(f"sbatch {_q(errand.script)}")}
{options}

# Slurm forgets a job after a while; these two lines stay.
marks={_q(errand.marks)}
attempt=${{SLURM_RESTART_COUNT:-0}}
trap 'echo "end $SLURM_JOB_ID $attempt $? $(date +%s)" >>"$marks"' EXIT
trap 'exit 143' TERM
echo "begin $SLURM_JOB_ID $attempt $(hostname) $(date +%s)" >>"$marks"

cd {_q(around.folder)} || exit
{_prepared(around)}
# What runs here, and where.
date
scontrol show job "$SLURM_JOB_ID"
{_q(around.python)} -m convdyno --version || exit
{_q(around.python)} -m convdyno list engines
if command -v nvidia-smi >/dev/null; then nvidia-smi -L; fi
env | grep -E '^(SLURM|CUDA)_' | sort

# The measurement: one task for each device.
{_measured(errand, around)}
"""


def in_job(folder: str) -> str:
    """A folder as bash finds it: a leading variable is the job's, everything else is literal."""
    found = VARIABLE.fullmatch(folder)
    if not found:
        return _q(folder)
    name, below = found[1] or found[2], (found[3] or "").rstrip("/")
    return f'"${{{name}:?is not set on this node}}"{_q(below) if below else ""}'


def _prepared(around: Surroundings) -> str:
    lines = [f"module load {_q(name)} || exit" for name in around.modules]
    if around.modules:
        lines.append("module list")
    if around.setup is not None:
        lines.append(f". {_q(around.setup)} || exit")
    return "".join(f"{line}\n" for line in lines)


def _measured(errand: Errand, around: Surroundings) -> str:
    step = {"mpi": "none", "ntasks": str(errand.tasks), **errand.step}
    parts = ["srun", *(_q(_option(name, value, quoted=False)) for name, value in step.items())]
    parts += [_q(around.python), "-m", "convdyno", "bench"]
    groups = [" ".join(parts)]
    for word in map(_q, errand.words):
        if word.startswith("--") or len(groups) == 1:
            groups.append(word)
        else:
            groups[-1] += f" {word}"
    if errand.stage is not None:
        label, folder = errand.stage
        groups.append(f"--stage-from {_q(f'{label}=')}{in_job(folder)}")
    groups.append(f'--out {_q(errand.files)}/"$SLURM_JOB_ID-$attempt"')
    lines = [groups[0]]
    for group in groups[1:]:
        if len(lines) > 1 and len(lines[-1]) + len(group) < WIDTH:
            lines[-1] += f" {group}"
        else:
            lines.append(f"    {group}")
    return " \\\n".join(lines)


def _option(name: str, value: str, *, quoted: bool = True) -> str:
    """One of sbatch's options; it understands double quotes and backslashes inside them."""
    if not value:
        return f"--{name}"
    if not quoted or PLAIN.fullmatch(value):
        return f"--{name}={value}"
    safe = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'--{name}="{safe}"'


def _pattern(path: Path) -> str:
    """A path in which sbatch finds nothing to fill in."""
    text = str(path)
    if "\\" in text or not text.isprintable():
        raise UsageError(f"Slurm cannot write to {text!r}: choose another folder with --out")
    return text.replace("%", "%%")


def _comment(text: str) -> str:
    return " ".join(text.split())


def _q(word: str | Path) -> str:
    return shlex.quote(str(word))
