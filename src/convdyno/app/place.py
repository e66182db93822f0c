"""Where trials run: hosts of a nodes file, ranks that somebody has made, or this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from convdyno.app.requests import RESULTS, Hosts
from convdyno.errors import UsageError
from convdyno.launch import external_ranks
from convdyno.launch.launcher import Launcher
from convdyno.launch.local import Here
from convdyno.launch.nodes import read_nodes
from convdyno.launch.remote_host import FOLDER, Remote
from convdyno.launch.ssh import SshLauncher
from convdyno.stage.progress import SILENCE, Narrator


def lend_rank() -> bool:
    """If this process is one of several ranks and not the first: do what the first one says."""
    member = external_ranks.found()
    if member is None or member.rank == 0:
        return False
    external_ranks.lend(member)
    return True


@contextmanager
def launcher(
    hosts: Hosts | None = None, out: Path = RESULTS, narrator: Narrator = SILENCE
) -> Iterator[Launcher]:
    """What starts trials on the hosts that were asked for."""
    hosts = hosts or Hosts()
    member = external_ranks.found()
    there: Launcher
    if hosts.nodes is not None:
        if member:
            raise UsageError(f"{member.starter} has made ranks already: leave --nodes out")
        named = os.environ.get("CONVDYNO_SSH_CONFIG")
        config = hosts.ssh_config or (Path(named) if named else None)
        there = SshLauncher(
            read_nodes(hosts.nodes, hosts.per_node),
            Remote(hosts.remote_dir or FOLDER, hosts.python, config),
            logs=out / "logs",
            most=hosts.max_devices,
            tell=narrator.tell,
        )
    elif hosts.max_devices is not None or hosts.remote_dir or hosts.python or hosts.per_node > 1:
        raise UsageError(
            "--per-node, --max-devices, --remote-dir and --python go with --nodes FILE"
        )
    elif member:
        there = external_ranks.ExternalRanks(member, lambda line: narrator.say(f"convdyno: {line}"))
    else:
        there = Here()
    try:
        yield there
    finally:
        there.close()
