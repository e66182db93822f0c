"""What this host says of itself before trials run on it, and whether it reaches the others.

    python -m convdyno.run.host_facts

Spoken to in JSON lines, without importing a framework:

| in | out |
|---|---|
| `{"trials": [...], "name": "n1", ...}` | `surveyed`: versions, networks, devices, its place |
| `{"others": {"n2": ["10.0.0.2", 40000]}}` | `reached`: what is wrong with each, or null |

Between the two it listens at a port, for the others to try.
"""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from convdyno import __version__
from convdyno.engines import registry
from convdyno.errors import ConvdynoError
from convdyno.machine import facts
from convdyno.machine.processor import usable_cores
from convdyno.run.feed import blueprint_of
from convdyno.trial.spec import Trial

HERE = "convdyno is here\n"
REACH_SECONDS = 5.0
PATIENCE_SECONDS = 300
"""A survey whose parent is lost does not stay."""


def survey(trials: Sequence[Trial], name: str) -> dict[str, Any]:
    """The facts that all hosts must agree on, and those that differ between them."""
    address, interface = whereabouts(name)
    known = registry.engines()
    return {
        "convdyno": __version__,
        "networks": [_network(trial) for trial in trials],
        "engines": {
            trial.engine: known[trial.engine].version if trial.engine in known else None
            for trial in trials
        },
        "data": {trial.data: _present(trial.data) for trial in trials},
        "cores": len(usable_cores()),
        "gpus": len(facts.visible_gpus()),
        "address": address,
        "interface": interface,
        "machine": facts.machine(),
        "time": time.time(),
    }


def whereabouts(name: str) -> tuple[str | None, str | None]:
    """The address that a name stands for here, and the interface that has it, if any."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return None, None
    found.sort(key=lambda one: one[0] != socket.AF_INET)  # By which engines find each other.
    addresses = [str(place[0]) for *_, place in found]
    for interface, own in psutil.net_if_addrs().items():
        for one in own:
            if one.address.partition("%")[0] in addresses:
                return one.address.partition("%")[0], interface
    if ipaddress.ip_address(addresses[0]).is_loopback:  # Debian's 127.0.1.1 is nobody's own.
        return addresses[0], "lo"
    return addresses[0], None


def reach(address: str, port: int) -> str | None:
    """Why a port cannot be reached, or nothing."""
    try:
        with socket.create_connection((address, port), timeout=REACH_SECONDS):
            return None
    except TimeoutError:
        return "no answer"
    except OSError as wrong:
        return wrong.strerror or str(wrong)


def _network(trial: Trial) -> dict[str, str]:
    try:
        return {"digest": blueprint_of(trial).digest}
    except ConvdynoError as wrong:
        return {"wrong": str(wrong)}


def _present(data: str) -> bool:
    """Whether data that are given by their path are there."""
    return os.sep not in data or Path(data).expanduser().exists()


def _go_to(folders: Sequence[str]) -> None:
    """Look at everything from where workers do: the first of these folders that is there."""
    for folder in folders:
        if Path(folder).is_dir():
            os.chdir(folder)
            sys.path.insert(0, folder)
            return


def _answer(server: socket.socket) -> None:
    while True:
        caller, _ = server.accept()
        caller.close()


def main() -> None:
    """Say what is here; then try the others."""
    signal.alarm(PATIENCE_SECONDS)
    asked = json.loads(sys.stdin.readline())
    _go_to(asked["folders"])
    trials = [Trial.model_validate(trial) for trial in asked["trials"]]
    family = socket.AF_INET6 if ":" in (whereabouts(asked["name"])[0] or "") else socket.AF_INET
    with socket.create_server(("", 0), family=family) as server:
        threading.Thread(target=_answer, args=[server], daemon=True).start()
        said = survey(trials, asked["name"]) | {"port": server.getsockname()[1]}
        print(f"{HERE}{json.dumps({'event': 'surveyed', **said})}", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        results = {name: reach(*place) for name, place in json.loads(line)["others"].items()}
        print(json.dumps({"event": "reached", "others": results}), flush=True)
        sys.stdin.readline()  # Others may still be trying.
        os._exit(0)


if __name__ == "__main__":
    main()
