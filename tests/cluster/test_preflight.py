"""Hosts are checked before trials run: each fault is a sentence that names the host."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from lab import Lab
from lab_host import sh, wait_for

from convdyno import __version__
from convdyno.errors import HostsNotReady, Refused, UsageError
from convdyno.launch.nodes import read_nodes
from convdyno.launch.remote_host import Remote
from convdyno.launch.ssh import SshLauncher
from convdyno.trial.spec import Trial

Launch = Callable[..., SshLauncher]


@pytest.fixture
def told() -> list[str]:
    """What the user is told."""
    return []


@pytest.fixture
def launch(hosts: Lab, tmp_path: Path, told: list[str]) -> Iterator[Launch]:
    """A launcher for the lab's hosts, or for those of a text."""
    with contextlib.ExitStack() as made:

        def new(per_node: int = 1, nodes: str = "", **remote: object) -> SshLauncher:
            file = tmp_path / "nodes.txt"
            file.write_text(nodes or hosts.nodes.read_text())
            settings = Remote(**{"ssh_config": hosts.ssh_config, **remote})
            there = SshLauncher(
                read_nodes(file, per_node), settings, logs=tmp_path, tell=told.append
            )
            made.callback(there.close)
            return there

        yield new


def trial(devices: int = 3, hosts: int | None = None, **more: object) -> Trial:
    base = {"network": "deepmnist", "engine": "clockwork", "batch": 4, "cores": 1}
    return Trial.model_validate(base | {"devices": devices, "hosts": hosts or devices} | more)


def faults(there: SshLauncher, *trials: Trial) -> list[str]:
    with pytest.raises(HostsNotReady) as wrong:
        there.check(trials or [trial()])
    return wrong.value.sentences


def wrapper(host_disk: Path, text: str) -> str:
    """A Python on a host that is the usual one, with something before it."""
    python = host_disk / "python-there"
    python.write_text(f'#!/bin/sh\n{text}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return "/srv/python-there"


def bare(host_disk: Path) -> str:
    """A Python on a host that has no packages, such as a new machine's."""
    python = host_disk / "python-there"
    base = Path(sys.base_prefix) / "bin" / "python3"
    python.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {base} -S "$@"\n')
    python.chmod(0o755)
    return "/srv/python-there"


def wrappers(hosts: Lab, **texts: str) -> str:
    for host in hosts:
        path = wrapper(host.disk, texts.get(host.name, ""))
    return path


def test_ready_hosts_are_told_with_the_interface_that_was_chosen(
    launch: Launch, hosts: Lab, told: list[str]
) -> None:
    launch().check([trial(2), trial(3)])
    assert told == [
        f"hosts: n1 (eth0, {hosts.network}.11), n2 (eth0, {hosts.network}.12), "
        f"n3 (eth0, {hosts.network}.13)"
    ]


def test_hosts_that_no_trial_uses_are_left_alone(launch: Launch, hosts: Lab) -> None:
    hosts["n3"].cut()
    launch().check([trial(1), trial(2)])


def test_every_host_that_cannot_be_reached_has_its_sentence(
    launch: Launch, hosts: Lab, tmp_path: Path
) -> None:
    hosts["n2"].cut()
    config = tmp_path / "config"
    closed_port = f"Host closed\n  HostName {hosts.head}\n  Port 9\n"
    config.write_text(closed_port + hosts.ssh_config.read_text())
    start = time.monotonic()
    nodes = "n1 to-n1\nn2 to-n2\nn7 nobody.invalid\nn9 closed\n"
    n2, nobody, closed = faults(launch(nodes=nodes, ssh_config=config), trial(4))
    assert n2.startswith("n2: cannot be reached over ssh: connect to host")
    assert "Could not resolve hostname nobody.invalid" in nobody
    assert nobody.startswith("n7: ")
    assert closed.startswith("n9: cannot be reached over ssh: connect to host")
    assert "Connection refused" in closed
    assert time.monotonic() - start < 60  # All at once, each within its time limit.


def test_a_host_that_hangs_while_it_is_asked_is_given_up(
    launch: Launch, hosts: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convdyno.launch.remote_host.ANSWER_SECONDS", 2.0)
    python = wrappers(hosts, n2="sleep 60")
    assert faults(launch(nodes="n2 to-n2\n", python=python), trial(1)) == [
        "n2: no answer within 2 s"
    ]


def test_another_version_there_is_named_beside_ours(launch: Launch, hosts: Lab) -> None:
    old = hosts["n2"].disk / "old" / "convdyno"
    old.mkdir(parents=True)
    (old / "__init__.py").write_text('__version__ = "0.0.7"\n')
    python = wrappers(hosts, n2="export PYTHONPATH=/srv/old")
    assert faults(launch(python=python)) == [
        f"n2: /srv/python-there has convdyno 0.0.7, and this is {__version__}: install the same, "
        "or leave out --python to have this one copied"
    ]


def test_another_network_of_the_same_name_is_found(launch: Launch, hosts: Lab) -> None:
    changed = hosts["n3"].disk / "changed"
    source = Path(__file__).parents[2] / "src" / "convdyno"
    subprocess.run(["cp", "-r", str(source), str(changed)], check=True)
    sh("mkdir", f"{hosts['n3'].disk}/site")
    changed.rename(hosts["n3"].disk / "site" / "convdyno")
    small = hosts["n3"].disk / "site" / "convdyno" / "zoo" / "small.py"
    text = small.read_text()
    assert "1024" in text
    small.write_text(text.replace("1024", "1000"))
    python = wrappers(hosts, n3="export PYTHONPATH=/srv/site")
    (fault,) = faults(launch(python=python))
    assert fault.startswith("n3: it makes another network of 'deepmnist' than this machine (")


def test_a_python_without_the_engine_is_told(launch: Launch, hosts: Lab) -> None:
    wrappers(hosts)
    bare(hosts["n2"].disk)
    (n2,) = faults(launch(python="/srv/python-there"), trial(engine="torch"))
    assert n2 == "n2: /srv/python-there lacks numpy, psutil, pydantic, safetensors, torch"


def test_a_python_that_is_none_is_told(launch: Launch) -> None:
    assert faults(launch(python="/srv/no such"), trial(1)) == [
        "n1: /srv/no such is no Python there"
    ]


def test_an_engine_of_another_version_is_told(launch: Launch, hosts: Lab) -> None:
    about = hosts["n2"].disk / "other" / "torch-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n")
    python = wrappers(hosts, n2="export PYTHONPATH=/srv/other:$PYTHONPATH")
    (fault,) = faults(launch(python=python), trial(engine="torch"))
    assert fault.startswith("n2: it has torch 1.0, and n1 has 2.")


def test_missing_data_are_told(launch: Launch, hosts: Lab, tmp_path: Path) -> None:
    (hosts["n1"].disk / "photos").mkdir()
    assert faults(launch(), trial(2, data="/srv/photos")) == ["n2: it has no /srv/photos"]


def test_more_devices_than_a_host_has_are_told(launch: Launch) -> None:
    there = launch(per_node=4)
    (fault,) = faults(there, trial(4, hosts=1))
    cores = fault.partition(" CPU core")[0].rpartition(" ")[2]
    assert fault == (
        f"n1: it has {cores} CPU core{'' if cores == '1' else 's'}, and 4 devices that need 4 were "
        "asked for there"
    )
    with pytest.raises(Refused, match=r"4 devices were asked for on each host \(--per-node\), and"):
        there.cores(4, "auto")


def test_a_name_that_the_others_cannot_use_is_told(launch: Launch, hosts: Lab) -> None:
    bad = "127.0.1.1 n2\n10.9.9.9 n3\n"
    table = hosts["n2"].disk / "hosts"
    table.write_text(bad)
    for name in ("n2", "n3"):
        hosts[name].disk.joinpath("hosts").write_text(bad)
        hosts[name].run("mount", "--bind", "/srv/hosts", "/etc/hosts", check=True)
    try:
        n2, n3 = faults(launch())
        assert n2.startswith("n2: its name 'n2' stands for 127.0.1.1 there, where the other hosts")
        assert n3 == "n3: its name 'n3' stands for 10.9.9.9 there, which no interface of it has"
        (unknown,) = faults(launch(nodes="n1 to-n1\nm2.invalid to-n2\n"), trial(2))
        assert unknown == (
            "m2.invalid: it does not know the name 'm2.invalid' that the nodes file gives it"
        )
        launch(nodes="m2.invalid to-n2\n").check([trial(1)])  # Alone, it needs no name.
    finally:
        for name in ("n2", "n3"):
            hosts[name].run("umount", "/etc/hosts", check=True)


def test_hosts_that_cannot_reach_each_other_are_told(launch: Launch, hosts: Lab) -> None:
    block = ["unreachable", f"{hosts.network}.13/32"]
    hosts["n1"].run("ip", "route", "add", *block, check=True)
    try:
        n1, n3 = faults(launch())
        assert n1.startswith(f"n1: it cannot reach n3 at {hosts.network}.13 (")
        assert n3.startswith(f"n3: it cannot reach n1 at {hosts.network}.11 (")
    finally:
        hosts["n1"].run("ip", "route", "del", *block, check=True)


def test_a_clock_that_is_wrong_is_noted(launch: Launch, hosts: Lab, told: list[str]) -> None:
    shifted = hosts["n2"].disk / "late"
    shifted.mkdir()
    (shifted / "sitecustomize.py").write_text(
        "import time\nnow = time.time\ntime.time = lambda: now() - 90\n"
    )
    python = wrappers(hosts, n2='export PYTHONPATH="/srv/late:$PYTHONPATH"')
    launch(python=python).check([trial()])
    (clock,) = (line for line in told if "clock" in line)
    assert clock in (
        f"n2: its clock is {s} s behind this machine's" for s in ("89.9", "90.0", "90.1")
    )


def test_an_engine_that_is_nowhere_is_installed_once(
    launch: Launch, hosts: Lab, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = hosts["n1"].disk / "wheels"
    fetch = [sys.executable, "-m", "pip", "download", "-qq", "--only-binary=:all:"]
    needs = [one for one in metadata.requires("convdyno") or () if "extra ==" not in one]
    pins = tmp_path / "pins.txt"
    pins.write_text(sh(sys.executable, "-m", "pip", "freeze", "--exclude-editable"))
    subprocess.run([*fetch, "-d", str(wheels), "-c", str(pins), *needs], check=True)
    settings = hosts["n1"].disk / ".config" / "pip" / "pip.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text("[global]\nno-index = true\nfind-links = /srv/wheels\n")
    monkeypatch.setattr("convdyno.launch.remote_host.PYTHONS", (bare(hosts["n1"].disk),))
    there = launch(folder="/srv/new")
    there.check([trial(1)])
    assert told[0].startswith("n1: installing convdyno in /srv/new/venv-")
    team = there.start(trial(1), 20)
    try:
        team.ask("open", silence=60, trial=trial(1).model_dump(mode="json"))
        command = hosts["n1"].processes()[team.ranks[0].pid]
        assert command.startswith("/srv/new/venv-")
    finally:
        team.end()
    told.clear()
    launch(folder="/srv/new").check([trial(1)])
    assert len(told) == 1  # Nothing was installed again.

    (fault,) = faults(launch(folder="/srv/new"), trial(1, engine="jax"))
    assert fault.startswith("n1: jax could not be installed in /srv/new/venv-")
    assert "jax" in fault.partition(": ")[2].partition(": ")[2]  # As pip said it.
    assert fault.endswith(".log); name a Python that has it with --python")


def test_ctrl_c_while_hosts_are_asked_leaves_nothing(hosts: Lab, tmp_path: Path) -> None:
    slow = 'case "$*" in *"import convdyno"*) sleep 61;; esac'
    python = wrappers(hosts, n1=slow, n2=slow, n3=slow)
    script = f"""
from pathlib import Path
from convdyno.launch.remote_host import Remote
from convdyno.launch.nodes import read_nodes
from convdyno.launch.ssh import SshLauncher
from convdyno.trial.spec import Trial
there = SshLauncher(
    read_nodes(Path({str(hosts.nodes)!r})),
    Remote(ssh_config=Path({str(hosts.ssh_config)!r}), python={python!r}),
    logs=Path({str(tmp_path)!r}),
)
try:
    there.check([Trial(network="deepmnist", engine="clockwork", batch=4, devices=3, hosts=3)])
finally:
    there.close()
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: all(host.processes("sleep 61") for host in hosts), "all hosts to be asked")
    parent.send_signal(signal.SIGINT)
    _, said = parent.communicate(timeout=240)
    assert said.rstrip().endswith("KeyboardInterrupt")
    wait_for(lambda: not any(host.processes("sleep 61") for host in hosts), "nothing left")


def test_settings_that_cannot_be_are_told(launch: Launch, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--ssh-config .*none is no file"):
        launch(ssh_config=tmp_path / "none")
    with pytest.raises(UsageError, match="9 devices were asked for"):
        launch().counts([1, 9])
    (fault,) = faults(launch(folder="/proc/nothing/here"), trial(1))
    assert fault.startswith("n1: /proc/nothing")
