"""A real cluster on this one machine: three hosts with an ssh daemon each, and Slurm if asked for.

    python tests/cluster/lab.py up [--slurm]    # prints how to use it
    python tests/cluster/lab.py status
    python tests/cluster/lab.py down            # every lab that was started by hand

A host is a process with its own network, name, /etc/hosts, process table, /run, /dev/shm and, at
/srv, a disk that is also its home; all else is this machine's. When that process ends, everything
on the host ends with it. Several labs can be up at once; each has a number and a network.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from lab_host import Host, Pid, found, sh, wait_for

NAMES = ("n1", "n2", "n3")
PROGRAMS = ("ip", "tc", "unshare", "nsenter", "ssh", "sshd", "ssh-keygen", "mpiexec")
LABS = 10
"""How many may be up at once."""
MAKING_SECONDS = 60.0

# bash as the first process of a host takes in the orphans, as init does.
INIT = """
set -e
hostname "$1"
mount --bind "$2/hosts" /etc/hosts
mount --bind "$2/$1/disk" /srv
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mkdir /run/sshd
ip link set lo up
touch "$2/$1/ready"
while :; do sleep 1000; done
"""


def missing(programs: tuple[str, ...] = PROGRAMS) -> str:
    """What keeps a lab from coming up here, or nothing."""
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        return "hosts can only be made by root on Linux"
    gone = [name for name in programs if found(name) is None]
    return f"not installed: {', '.join(gone)} (tests/system.sh installs them)" if gone else ""


class Lab:
    """A network of hosts around this machine, which is its head."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.folder = Path(f"/tmp/convdyno-lab-{number}")
        self.bridge = f"cd{number}"
        self.network = f"10.77.{number}"
        self.head = f"{self.network}.1"
        self.hosts: dict[str, Host] = {}
        self.ssh_config = self.folder / "ssh_config"
        """For `ssh -F`: the aliases to-n1, to-n2, to-n3, and the plain names."""
        self.nodes = self.folder / "nodes.txt"
        """The nodes file of all hosts."""

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts.values())

    def ssh(self, name: str, *words: str) -> list[str]:
        """The command that gives a host's shell a line over ssh."""
        return [found("ssh") or "ssh", "-F", str(self.ssh_config), f"to-{name}", *words]

    def mpiexec(self, *names: str, each: int = 1) -> list[str]:
        """The beginning of a command that runs ranks on each of these hosts, or all here."""
        base = [found("mpiexec") or "mpiexec", "--allow-run-as-root", "--oversubscribe"]
        if not names:
            return base
        settings = {
            "plm_rsh_agent": f"ssh -F {self.ssh_config}",
            "btl": "tcp,self",
            "btl_tcp_if_include": f"{self.network}.0/24",
            "oob_tcp_if_include": f"{self.network}.0/24",
        }
        words = [word for key, value in settings.items() for word in ("--mca", key, value)]
        hosts, size = ",".join(f"{name}:{each}" for name in names), str(each * len(names))
        return [*base, "--host", hosts, "-np", size, *words]

    @classmethod
    def up(cls, *, by_hand: bool = False) -> Lab:
        """Bring up a lab under the first free number."""
        if why := missing():
            raise RuntimeError(why)
        for number in range(LABS):
            lab = cls(number)
            if lab.folder.exists() and not lab.owned:
                lab.down()  # Left by a test run that was killed.
            with contextlib.suppress(FileExistsError):
                lab.folder.mkdir(mode=0o755)
                owner = Pid(0, "by hand") if by_hand else Pid.of(os.getpid())
                owner.write(lab.folder / "owner")
                try:
                    lab._build()
                except BaseException:
                    lab.down()
                    raise
                return lab
        raise RuntimeError(f"all {LABS} labs are in use: python {__file__} status")

    @property
    def owned(self) -> bool:
        """Whether somebody uses it; one without an owner may be in the making."""
        owner = self.folder / "owner"
        if not owner.exists():
            return time.time() - self.folder.stat().st_mtime < MAKING_SECONDS
        return self.by_hand or Pid.read(owner).alive

    @property
    def by_hand(self) -> bool:
        """Whether it was started by hand, to stay."""
        owner = self.folder / "owner"
        return owner.exists() and Pid.read(owner).number == 0

    def keep(self, name: str, number: int) -> Pid:
        """Remember a process, to be ended with the lab."""
        pid = Pid.of(number)
        pid.write(self.folder / f"{name}.pid")
        return pid

    def down(self) -> None:
        """End what the lab started, and remove it. All processes of a host end with it."""
        for pid_file in sorted(self.folder.glob("*.pid")):
            Pid.read(pid_file).kill()
        for link in (*(f"{self.bridge}{name}" for name in NAMES), self.bridge):
            sh("ip", "link", "del", link, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _build(self) -> None:
        table = {name: f"{self.network}.{11 + i}" for i, name in enumerate(NAMES)}
        lines = [
            f"{a} {n}\n" for n, a in {"localhost": "127.0.0.1", "head": self.head, **table}.items()
        ]
        (self.folder / "hosts").write_text("".join(lines))
        sh("ip", "link", "add", self.bridge, "type", "bridge")
        sh("ip", "addr", "add", f"{self.head}/24", "dev", self.bridge)
        sh("ip", "link", "set", self.bridge, "up")
        for name, address in table.items():
            self.hosts[name] = self._start(name, address)
        self._write_client_files()
        for host in self:
            self._connect(host)
            self._start_sshd(host)
        for host in self:
            log = str(self.folder / host.name / "sshd.log")
            wait_for(lambda h=host: _listens(h.address), f"sshd of {host.name}", log)

    def _start(self, name: str, address: str) -> Host:
        folder = self.folder / name
        (folder / "disk").mkdir(parents=True)
        spaces = ["--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
        with (folder / "init.log").open("w") as log:
            process = subprocess.Popen(
                ["unshare", *spaces, "bash", "-c", INIT, "init", name, str(self.folder)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.keep(f"{name}-outside", process.pid)
        wait_for((folder / "ready").exists, f"host {name}", log.name)
        first = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        pid = self.keep(name, int(first))
        return Host(name, address, f"{self.bridge}{name}", pid, folder / "disk")

    def _connect(self, host: Host) -> None:
        there = ["peer", "name", "eth0", "netns", str(host.pid.number)]
        sh("ip", "link", "add", host.port, "type", "veth", *there)
        sh("ip", "link", "set", host.port, "master", self.bridge, "up")
        sh(*host.enter("ip", "addr", "add", f"{host.address}/24", "dev", "eth0"))
        sh(*host.enter("ip", "link", "set", "eth0", "up"))

    def _write_client_files(self) -> None:
        _make_key(self.folder / "key")
        aliases, known = "", ""
        for host in self:
            _make_key(self.folder / host.name / "host_key")
            kind, key = (self.folder / host.name / "host_key.pub").read_text().split()[:2]
            known += f"{host.address} {kind} {key}\n"
            aliases += f"Host {host.alias} {host.name}\n  HostName {host.address}\n"
        (self.folder / "known_hosts").write_text(known)
        self.ssh_config.write_text(
            f"{aliases}Host *\n  User root\n  IdentityFile {self.folder}/key\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.folder}/known_hosts\n"
            "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n"
        )
        self.nodes.write_text("".join(f"{host.name} {host.alias}\n" for host in self))

    def _start_sshd(self, host: Host) -> None:
        folder = self.folder / host.name
        (folder / "sshd_config").write_text(
            f"ListenAddress {host.address}\nHostKey {folder}/host_key\n"
            f"AuthorizedKeysFile {self.folder}/key.pub\nPidFile none\nUsePAM no\nStrictModes no\n"
            "PasswordAuthentication no\nPermitRootLogin yes\n"
            f"SetEnv HOME=/srv TMPDIR={tempfile.gettempdir()}\n"
            "MaxStartups 100\nMaxSessions 100\n"
        )
        daemon = found("sshd") or "sshd"  # It insists on its absolute path.
        sh(*host.enter(daemon, "-f", f"{folder}/sshd_config", "-E", f"{folder}/sshd.log"))


def _make_key(path: Path) -> None:
    sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "convdyno lab", "-f", str(path))


def _listens(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=1):
            return True
    except OSError:
        return False


def _tell(lab: Lab) -> None:
    owner = (
        "started by hand" if lab.by_hand else f"of process {Pid.read(lab.folder / 'owner').number}"
    )
    print(f"lab {lab.number}, {owner}: hosts {', '.join(NAMES)}, head {lab.head}, {lab.folder}")
    print(f"  ssh -F {lab.ssh_config} to-n1 hostname      nodes file: {lab.nodes}")
    if (lab.folder / "slurm.conf").exists():
        print(f"  SLURM_CONF={lab.folder}/slurm.conf sinfo")


def main() -> None:
    """Up, down or status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("do", choices=["up", "down", "status"])
    parser.add_argument("--slurm", action="store_true", help="start Slurm too")
    arguments = parser.parse_args()
    labs = [lab for number in range(LABS) if (lab := Lab(number)).folder.exists()]
    if arguments.do == "up":
        lab = Lab.up(by_hand=True)
        if arguments.slurm:
            from lab_slurm import start_slurm

            start_slurm(lab)
        _tell(lab)
    elif arguments.do == "down":
        for lab in labs:
            if lab.by_hand:
                lab.down()
    else:
        for lab in labs:
            _tell(lab)


if __name__ == "__main__":
    main()
