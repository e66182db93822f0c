"""Workers over ssh: they run one trial together, and none is left whatever happens."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import shown
from lab import Lab
from lab_host import Host, wait_for

from convdyno.errors import HostsNotReady, TrialFailed
from convdyno.launch import ssh, worker_group
from convdyno.launch.bundle import bundle
from convdyno.launch.launcher import Team
from convdyno.launch.nodes import read_nodes
from convdyno.launch.remote_host import Remote
from convdyno.launch.ssh import SshLauncher
from convdyno.trial.spec import Trial

Launch = Callable[..., SshLauncher]
NASTY = 'it\'s "odd" $(touch /srv/executed) `touch /srv/executed`; touch /srv/executed #'

QUICK = ["bench", "deepmnist", "--engine", "clockwork", "--batch", "8"]
QUICK += ["--budget", "5m", "--within", "any", "--rounds", "1"]


ON_HOSTS = [
    line
    for line in shown.commands((shown.DOCS / "coming-from.md").read_text())
    if "--nodes" in line
]


@pytest.fixture
def launch(hosts: Lab, tmp_path: Path) -> Iterator[Launch]:
    """A launcher for the lab's hosts."""
    with contextlib.ExitStack() as made:

        def new(per_node: int = 1, nodes: str = "", **remote: object) -> SshLauncher:
            file = hosts.nodes
            if nodes:
                file = tmp_path / "nodes.txt"
                file.write_text(nodes)
            settings = Remote(**{"ssh_config": hosts.ssh_config, **remote})
            there = SshLauncher(read_nodes(file, per_node), settings, logs=tmp_path / "logs")
            made.callback(there.close)
            return there

        yield new


def trial(devices: int, hosts: int | None = None, engine: str = "clockwork") -> Trial:
    return Trial(
        network="deepmnist",
        engine=engine,
        batch=4,
        devices=devices,
        hosts=hosts or devices,
        cores=1,
    )


@contextlib.contextmanager
def opened(there: SshLauncher, what: Trial, rank_seconds: float = 20) -> Iterator[Team]:
    team = there.start(what, rank_seconds)
    try:
        team.ask("open", silence=120, trial=what.model_dump(mode="json"))
        yield team
    finally:
        team.end()


def ours(lab: Lab) -> dict[str, dict[int, str]]:
    """What runs of convdyno on which host."""
    return {host.name: found for host in lab if (found := host.processes("convdyno."))}


def nothing_left(lab: Lab, seconds: float = 120) -> None:
    wait_for(lambda: not ours(lab), "nothing of convdyno on any host", seconds=seconds)


def tether_on(lab: Lab, host: str) -> int:
    (tether,) = lab[host].processes("-m convdyno.launch.remote_supervisor")
    return tether


def our_ssh(parent: int) -> list[psutil.Process]:
    """The ssh clients of a process."""
    return [p for p in psutil.Process(parent).children(recursive=True) if p.name() == "ssh"]


@pytest.mark.parametrize("count", [1, 3, pytest.param(2, marks=pytest.mark.long)])
def test_torch_runs_one_trial_on_as_many_hosts(launch: Launch, hosts: Lab, count: int) -> None:
    there = launch()
    assert there.counts(None) == [1, 2, 3]
    assert there.hosts(count) == count
    what = trial(count, engine="torch")
    there.check([what])
    with opened(there, what) as team:
        team.ask("warm", silence=120, seconds=1)
        measured = team.ask("measure", silence=120, turn=0, blocks=2)
        assert [rank.host for rank in team.ranks] == ["n1", "n2", "n3"][:count]
        assert all(len(rank.seconds) >= 2 for rank in team.ranks)
        assert all(block["seconds"] > 0 for block in measured["blocks"])
        closed = team.ask("close", silence=60)
        assert closed["peak_memory_bytes"] > 1e7
        team.end(kindly=True)
    assert ours(hosts) == {}


def test_several_devices_of_a_host_are_ranks_of_their_own(launch: Launch, hosts: Lab) -> None:
    there = launch(per_node=2)
    assert there.cores(6, "auto") == 1
    assert there.hosts(4) == 2
    with opened(there, trial(4, hosts=2)) as team:
        places = [(r.rank, r.host, r.local_rank, len(r.cores)) for r in team.ranks]
        assert places == [(0, "n1", 0, 1), (1, "n1", 1, 1), (2, "n2", 0, 1), (3, "n2", 1, 1)]
        assert len(hosts["n1"].processes("convdyno.run.worker")) == 4  # Two, and their tethers.
    assert ours(hosts) == {}


def test_every_rank_has_a_log_of_its_own(launch: Launch, tmp_path: Path) -> None:
    with opened(launch(), trial(2)):
        pass
    (run,) = (tmp_path / "logs").iterdir()
    assert sorted(log.name for log in run.iterdir()) == ["rank-0-n1.log", "rank-1-n2.log"]


def test_what_a_rank_says_is_in_its_log(launch: Launch, tmp_path: Path) -> None:
    there, bad = launch(), trial(2)
    team = there.start(bad, 20)
    with pytest.raises(TrialFailed, match=r"rank . on n[12]"):
        team.ask("open", silence=60, trial={"network": "deepmnist", "engine": "clockwork"})
    team.end()
    logs = [log.read_text() for log in tmp_path.glob("logs/*/rank-*.log")]
    assert any("Traceback" in log and "batch" in log for log in logs)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_the_parent_is_ended(
    hosts: Lab, tmp_path: Path, number: signal.Signals
) -> None:
    script = Path(__file__).with_name("lone_parent.py")
    arguments = [str(hosts.nodes), str(hosts.ssh_config), str(tmp_path)]
    parent = subprocess.Popen(
        [sys.executable, str(script), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert parent.stdout is not None
    assert len(json.loads(parent.stdout.readline())) == 3
    clients = our_ssh(parent.pid)
    assert clients
    assert len(ours(hosts)) == 3
    parent.send_signal(number)
    parent.wait(240)
    parent.stdout.close()
    nothing_left(hosts)
    _, alive = psutil.wait_procs(clients, timeout=240)
    assert not alive


def test_nothing_is_left_when_the_ssh_client_is_killed(launch: Launch, hosts: Lab) -> None:
    there = launch()
    with opened(there, trial(3)) as team:
        victims = [p for p in our_ssh(os.getpid()) if "to-n2" in p.cmdline()]
        assert victims
        for victim in victims:
            victim.kill()
        with pytest.raises(TrialFailed, match=r"rank 1 on n2 died \(its ssh client"):
            for _ in range(1000):
                team.ask("measure", silence=60, turn=0, blocks=1)
        team.end()
        nothing_left(hosts)


def test_a_killed_worker_is_named_with_its_host(launch: Launch, hosts: Lab) -> None:
    there = launch()
    with opened(there, trial(3)) as team:
        hosts["n3"].kill(team.ranks[2].pid)
        with pytest.raises(TrialFailed, match=r"rank 2 on n3 died \(SIGKILL\)"):
            for _ in range(1000):
                team.ask("measure", silence=60, turn=0, blocks=1)
        team.end()
        assert ours(hosts) == {}


def test_a_worker_does_not_outlive_its_tether(launch: Launch, hosts: Lab) -> None:
    with opened(launch(), trial(2)) as team:
        hosts["n2"].kill(tether_on(hosts, "n2"))
        with pytest.raises(TrialFailed, match="rank 1 on n2"):
            for _ in range(1000):
                team.ask("measure", silence=60, turn=0, blocks=1)
        nothing_left(hosts)


def test_a_host_whose_link_is_cut_is_named_and_ends_its_worker_itself(
    launch: Launch, hosts: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (worker_group, ssh):
        monkeypatch.setattr(module, "PING_SECONDS", 1.0)
    there = launch()
    with opened(there, trial(2), rank_seconds=6) as team:
        hosts["n2"].cut()
        with pytest.raises(TrialFailed, match="rank 1 on n2"):
            for _ in range(10000):
                team.ask("measure", silence=120, turn=0, blocks=1)
        team.end()
        assert not hosts["n1"].processes("convdyno.")
        nothing_left(hosts)


def test_a_tether_that_hangs_is_ended_from_here(launch: Launch, hosts: Lab) -> None:
    there = launch()
    with opened(there, trial(2), rank_seconds=4) as team:
        hosts["n2"].kill(tether_on(hosts, "n2"), signal.SIGSTOP)
        with pytest.raises(TrialFailed, match="rank 1 on n2 was lost"):
            for _ in range(1000):
                team.ask("measure", silence=60, turn=0, blocks=1)
        team.end()
        nothing_left(hosts)


def test_the_bundle_is_copied_once(launch: Launch, hosts: Lab) -> None:
    place = hosts["n1"].disk / "once" / bundle().name
    launch(folder="/srv/once").check([trial(1)])
    first = place.stat()
    launch(folder="/srv/once").check([trial(1)])
    assert place.stat().st_ino == first.st_ino
    assert sorted(p.name for p in place.parent.iterdir()) == [".lock", bundle().name]


def test_bundles_that_nobody_uses_are_removed_some_day(launch: Launch, hosts: Lab) -> None:
    folder = hosts["n1"].disk / "some-day"
    old, lately = (f"convdyno-0.0-{digit * 12}" for digit in "ab")
    for name, days in ((old, 40), (lately, 20), ("convdyno-results", 40)):
        (folder / name).mkdir(parents=True)
        (folder / name / "constraints.txt").touch()
        used = time.time() - days * 24 * 3600
        os.utime(folder / name, (used, used))
    launch(folder="/srv/some-day").check([trial(1)])
    left = {p.name for p in folder.iterdir() if p.name != ".lock"}
    assert left == {bundle().name, lately, "convdyno-results"}


def test_strange_words_are_taken_as_they_stand(
    launch: Launch, hosts: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = hosts["n1"].disk / f"bin {NASTY.replace('/', '|')}"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("GLOO_TEST", f"{NASTY}\n2")
    folder = f"/srv/{NASTY.replace('/', '|')}"
    there = launch(folder=folder, python=f"/srv/{python.name}")
    with opened(there, trial(1)) as team:
        pid = team.ranks[0].pid
        environment = hosts["n1"].run("cat", f"/proc/{pid}/environ").stdout.split("\0")
        assert f"GLOO_TEST={NASTY}\n2" in environment
    with opened(launch(folder=folder), trial(1)):
        assert (hosts["n1"].disk / folder.removeprefix("/srv/") / bundle().name).is_dir()
    assert not list(hosts.folder.rglob("executed"))


@pytest.mark.parametrize(
    "form", ["$(touch${{IFS}}{})", "`touch {}`", "x'; touch {} '", "two words"]
)
def test_a_strange_alias_is_never_executed(
    launch: Launch, hosts: Lab, tmp_path: Path, form: str
) -> None:
    marker = tmp_path / "executed"
    alias = form.format(marker)
    config = tmp_path / "config"
    config.write_text(
        f'Host "{alias}"\n  HostName {hosts["n1"].address}\n' + hosts.ssh_config.read_text()
    )
    there = launch(nodes=f"n1 {shlex.quote(alias)}\n", ssh_config=config)
    try:
        there.check([trial(1)])
    except HostsNotReady as wrong:  # ssh itself has refused such names since 9.6.
        assert str(wrong) == "n1: cannot be reached over ssh: hostname contains invalid characters"
    assert not marker.exists()


def test_what_login_scripts_print_is_no_answer(launch: Launch, hosts: Lab) -> None:
    noise = hosts["n1"].disk / ".bashrc"
    noise.write_text("echo 'process 1'; echo '{\"event\": \"failed\"}'; echo Welcome")
    try:
        with opened(launch(), trial(2)) as team:
            assert [rank.host for rank in team.ranks] == ["n1", "n2"]
    finally:
        noise.unlink()


def test_connections_are_closed_and_their_folder_removed(launch: Launch, hosts: Lab) -> None:
    root, own = Path(tempfile.gettempdir()), f"convdyno-ssh-{os.getpid()}-*"
    (killed := root / "convdyno-ssh-4194305-x").mkdir()  # No process has such a number.
    before = set(root.glob(own))
    there = launch()
    assert not killed.exists()
    there.check([trial(3)])
    (folder,) = set(root.glob(own)) - before
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(list(folder.iterdir())) == 3
    there.close()
    assert not folder.exists()


def test_a_checked_host_says_which_machine_it_is(launch: Launch) -> None:
    there = launch()
    there.check([trial(1)])
    assert there.machine()["host"] == "n1"


def test_bench_draws_the_curve_over_the_hosts_of_a_nodes_file(
    convdyno: Any, hosts: Lab, tmp_path: Path
) -> None:
    there = ["--nodes", str(hosts.nodes), "--ssh-config", str(hosts.ssh_config)]
    done = convdyno(*QUICK, *there)
    assert done.code == 0, done.err
    assert f"hosts: n1 (eth0, {hosts.network}.11), n2" in done.err
    records = [json.loads(p.read_text()) for p in (tmp_path / "results").glob("*.json")]
    assert sorted((r["trial"]["devices"], r["status"]) for r in records) == [
        (1, "ok"), (2, "ok"), (3, "ok"),
    ]  # fmt: skip
    (whole,) = (r for r in records if r["trial"]["devices"] == 3)
    assert [rank["host"] for rank in whole["processes"][0]["ranks"]] == ["n1", "n2", "n3"]
    assert {r["machine"]["host"] for r in records} == {"n1"}, "not the machine that asked"
    (table,) = (tmp_path / "results").glob("scaling-*.csv")
    _, *rows = table.read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["1", "2", "3"]
    assert ours(hosts) == {}


@pytest.mark.parametrize("line", ON_HOSTS)
def test_a_command_for_those_who_had_ssh_scripts_runs(
    convdyno: Any, hosts: Lab, tmp_path: Path, line: str
) -> None:
    nodes = str(hosts.nodes)
    stand_ins = {"nodes": nodes, "nodes.txt": nodes, "DIR": "/srv/there"}
    there = ["--ssh-config", str(hosts.ssh_config), "--budget", "5m", "--batch", "2"]
    done = convdyno(*shown.small(line, stand_ins), *there)
    assert done.code == 0, done.err
    records = [json.loads(p.read_text()) for p in (tmp_path / "results").glob("*.json")]
    (largest,) = (r for r in records if r["trial"]["devices"] == 2)
    assert {r["status"] for r in records} == {"ok"}
    assert [rank["host"] for rank in largest["processes"][0]["ranks"]] == ["n1", "n2"]
    assert ours(hosts) == {}


def test_bench_goes_on_after_a_host_was_lost(convdyno: Any, hosts: Lab, tmp_path: Path) -> None:
    """The second host's worker is killed as soon as there is one; one host alone goes on."""
    there = ["--nodes", str(hosts.nodes), "--ssh-config", str(hosts.ssh_config)]
    killer = threading.Thread(target=kill_first_worker, args=[hosts["n2"]])
    killer.start()
    done = convdyno(*QUICK, "--devices", "1,2", *there)
    killer.join()
    assert done.code == 5
    records = [json.loads(p.read_text()) for p in (tmp_path / "results").glob("*.json")]
    assert {r["trial"]["devices"]: r["status"] for r in records} == {1: "ok", 2: "failed"}
    (failed,) = (r for r in records if r["status"] == "failed")
    assert "rank 1 on n2 died (SIGKILL)" in failed["reason"]
    assert ours(hosts) == {}


def kill_first_worker(host: Host) -> None:
    found: dict[int, str] = {}

    def look() -> bool:
        workers = host.processes("-m convdyno.run.worker").items()
        found.update((pid, c) for pid, c in workers if "remote_supervisor" not in c)
        return bool(found)

    wait_for(look, "a worker")
    host.kill(next(iter(found)))
