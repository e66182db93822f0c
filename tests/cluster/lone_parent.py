"""A parent of its own, to be killed: opens a trial on far hosts and measures until it is ended.

python lone_parent.py NODES SSH_CONFIG LOGS
"""

import json
import sys
import time
from pathlib import Path

from convdyno.launch.nodes import read_nodes
from convdyno.launch.remote_host import Remote
from convdyno.launch.ssh import SshLauncher
from convdyno.trial.spec import Trial


def main() -> None:
    nodes_file, ssh_config, logs = map(Path, sys.argv[1:])
    nodes = read_nodes(nodes_file)
    there = SshLauncher(nodes, Remote(ssh_config=ssh_config), logs=logs)
    count = len(nodes.hosts)
    trial = Trial(
        network="deepmnist", engine="clockwork", batch=2, devices=count, hosts=count, cores=1
    )
    team = there.start(trial, 20)
    try:
        team.ask("open", silence=60, trial=trial.model_dump(mode="json"))
        print(json.dumps([rank.pid for rank in team.ranks]), flush=True)
        while True:
            team.ask("measure", silence=60, turn=0, blocks=1)
            time.sleep(0.01)
    finally:
        team.end()
        there.close()


if __name__ == "__main__":
    main()
