"""Where the trials of a command run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from convdyno.errors import UsageError

if TYPE_CHECKING:
    from convdyno.launch.launcher import Launcher

SHARED = ("bench", "train", "eval")
"""Commands that several ranks run together."""
SIGNS = {"CONVDYNO_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}


def lent(words: list[str]) -> bool:
    """If this process is one of several ranks and not the first: do what the first one says."""
    if not words or words[0] not in SHARED or not SIGNS & os.environ.keys():
        return False
    from convdyno.launch import adopt

    member = adopt.found()
    if member is None or member.rank == 0:
        return False
    adopt.lend(member)
    return True


@contextmanager
def launcher(
    nodes: Path | None = None,
    per_node: int = 1,
    max_devices: int | None = None,
    remote_dir: str | None = None,
    python: str | None = None,
    ssh_config: Path | None = None,
    out: Path = Path("results"),
    quiet: bool = False,
) -> Iterator[Launcher]:
    """The hosts of a nodes file, the ranks that somebody has made, or this machine."""
    from convdyno.launch import adopt
    from convdyno.launch.local import Here

    member = adopt.found()
    there: Launcher
    if nodes is not None:
        if member:
            raise UsageError(f"{member.starter} has made ranks already: leave --nodes out")
        there = _far(nodes, per_node, max_devices, remote_dir, python, ssh_config, out, quiet)
    elif max_devices is not None or remote_dir or python or per_node > 1:
        raise UsageError(
            "--per-node, --max-devices, --remote-dir and --python go with --nodes FILE"
        )
    else:
        there = adopt.Hands(member, _say) if member else Here()
    try:
        yield there
    finally:
        there.close()


def _say(line: str) -> None:
    typer.echo(f"convdyno: {line}", err=True)


def _far(
    nodes: Path, per_node: int, max_devices: int | None, remote_dir: str | None,
    python: str | None, ssh_config: Path | None, out: Path, quiet: bool,
) -> Launcher:  # fmt: skip
    from convdyno.launch.host import FOLDER, Remote
    from convdyno.launch.nodes import read_nodes
    from convdyno.launch.ssh import SshLauncher

    named = os.environ.get("CONVDYNO_SSH_CONFIG")
    return SshLauncher(
        read_nodes(nodes, per_node),
        Remote(remote_dir or FOLDER, python, ssh_config or (Path(named) if named else None)),
        logs=out / "logs",
        most=max_devices,
        tell=lambda line: None if quiet else typer.echo(line, err=True),
    )
