"""Slurm on the lab's hosts: its own munge, a controller on the head, a daemon on each host.

The GPUs are null devices: Slurm hands them out as if they were real.
"""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import NAMES, Lab
from lab_host import found, sh, wait_for

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "sinfo")
GPUS = {"n1": ("k80", 4), "n2": ("p100", 2)}
"""What the hosts of partition GPU have; n3 is partition RM, with cores alone."""
CORES = 4


@dataclass
class Slurm:
    """A running Slurm, spoken to by its own commands."""

    lab: Lab
    environment: dict[str, str]
    """What its commands need: where its settings are."""

    def run(self, *command: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run one of its commands, such as sbatch, on the head."""
        options = {"capture_output": True, "text": True, "timeout": 120, **more}
        return subprocess.run(command, env=os.environ | self.environment, **options)


def start_slurm(lab: Lab) -> Slurm:
    """Start Slurm on a lab; it ends with the lab."""
    folder = lab.folder
    config = folder / "slurm.conf"
    for name in ("state", "fakedev", "munge"):
        (folder / name).mkdir()
    for number in range(max(count for _, count in GPUS.values())):
        sh("mknod", str(folder / f"fakedev/gpu{number}"), "c", "1", "3")
    config.write_text(_settings(lab))
    (folder / "gres.conf").write_text(_devices(folder))
    _start_munge(lab)
    environment = {"SLURM_CONF": str(config)}
    _daemon(lab, "slurmctld", "-D", "-i", "-f", str(config))
    for host in lab:
        command = host.enter(found("slurmd") or "slurmd", "-D", "-N", host.name, "-f", str(config))
        _daemon(lab, f"slurmd-{host.name}", command=command)
    slurm = Slurm(lab, environment)
    ready = lambda: _idle(slurm) == len(NAMES)  # noqa: E731
    wait_for(ready, "all hosts idle in Slurm", str(folder / "slurmctld.log"))
    return slurm


def _idle(slurm: Slurm) -> int:
    listed = slurm.run("sinfo", "--noheader", "--Node", "--format=%N %T").stdout.splitlines()
    return len({line for line in listed if line.endswith(" idle")})


def _start_munge(lab: Lab) -> None:
    folder = lab.folder / "munge"
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o400)
    places = {"key-file": "key", "socket": "socket", "log-file": "log", "seed-file": "seed"}
    options = [f"--{option}={folder / name}" for option, name in places.items()]
    pid_file = f"--pid-file={folder}/pid"
    _daemon(lab, "munged", "--foreground", "--num-threads=2", "--force", pid_file, *options)
    wait_for((folder / "socket").exists, "munge", str(lab.folder / "munged.log"))


def _daemon(lab: Lab, name: str, *arguments: str, command: list[str] | None = None) -> None:
    """Start a daemon that stays in the foreground, and remember it."""
    with (lab.folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            command or [found(name) or name, *arguments],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    lab.keep(name, process.pid)


def _settings(lab: Lab) -> str:
    folder = lab.folder
    nodes = "".join(
        f"NodeName={host.name} NodeAddr={host.address} Port=6818 CPUs={CORES} RealMemory=4000"
        + (f" Gres=gpu:{GPUS[host.name][0]}:{GPUS[host.name][1]}" if host.name in GPUS else "")
        + "\n"
        for host in lab
    )
    return f"""\
ClusterName=lab{lab.number}
SlurmctldHost={socket.gethostname()}({lab.head})
SlurmctldPort={6900 + lab.number}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,batch_sched_delay=0
KillWait=3
SlurmdTimeout=10
MinJobAge=300
JobAcctGatherType=jobacct_gather/linux
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobs.txt
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld-own.txt
SlurmdPidFile={folder}/slurmd-own.%n.txt
GresTypes=gpu
{nodes}PartitionName=GPU Nodes=n1,n2 Default=YES MaxTime=60 State=UP
PartitionName=RM Nodes=n3 MaxTime=60 State=UP
"""


def _devices(folder: Path) -> str:
    return "".join(
        f"NodeName={name} Name=gpu Type={kind} File={folder}/fakedev/gpu[0-{count - 1}]\n"
        for name, (kind, count) in GPUS.items()
    )
