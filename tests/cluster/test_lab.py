"""The lab is what it says: hosts, links that can be shaped and cut, Slurm that hands out GPUs."""

import subprocess
import sys
from pathlib import Path

from lab import Lab
from lab_host import Pid, sh
from lab_slurm import Slurm

RECEIVE = """
import socket, time
listener = socket.create_server(("", 7000))
print("listening", flush=True)
link, _ = listener.accept()
start, seen = time.perf_counter(), 0
while chunk := link.recv(1 << 16):
    seen += len(chunk)
print(seen * 8e-6 / (time.perf_counter() - start))
"""
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 7000)) as link:
    link.sendall(bytes(int(float(sys.argv[2]) * 1e6)))
"""


def megabits_per_second(lab: Lab, to: str, megabytes: float) -> float:
    receiver = lab[to].start(sys.executable, "-c", RECEIVE, stdout=subprocess.PIPE)
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == "listening\n"
    lab["n1"].run(sys.executable, "-c", SEND, to, str(megabytes), check=True)
    return float(receiver.communicate(timeout=240)[0])


def test_ssh_reaches_each_host_under_its_alias(hosts: Lab) -> None:
    for name in ("n1", "n2", "n3"):
        said = sh(*hosts.ssh(name, "hostname; cat"), input="one line", stdin=None)
        assert said == f"{name}\none line"


def test_hosts_know_each_other_and_share_no_process_nor_home(hosts: Lab) -> None:
    for host in hosts:
        (host.disk / "mine").write_text(f"{host.name}\n")
    assert sh(*hosts.ssh("n2", "cat ~/mine; getent hosts $(hostname) n3")).split() == [
        "n2", hosts["n2"].address, "n2", hosts["n3"].address, "n3",
    ]  # fmt: skip
    sleeper = hosts["n1"].start("sleep", "77.7")
    try:
        assert "sleep 77.7" in hosts["n1"].processes("sleep 77").values()
        assert not hosts["n2"].processes("sleep 77")
    finally:
        sleeper.kill()


def test_a_shaped_link_lets_its_rate_through_and_no_more(hosts: Lab) -> None:
    hosts["n2"].shape("20mbit")
    assert megabits_per_second(hosts, "n2", 2) < 26
    hosts["n2"].unshape()
    assert megabits_per_second(hosts, "n2", 20) > 26


def test_a_cut_link_is_noticed_and_mended(hosts: Lab) -> None:
    ask = [*hosts.ssh("n3", "true")]
    ask[1:1] = ["-o", "ConnectTimeout=2", "-o", "BatchMode=yes"]
    assert subprocess.run(ask).returncode == 0
    hosts["n3"].cut()
    refused = subprocess.run(ask, capture_output=True, text=True)
    assert refused.returncode == 255
    assert "timed out" in refused.stderr or "No route" in refused.stderr
    hosts["n3"].mend()
    assert subprocess.run(ask).returncode == 0


def test_mpi_starts_ranks_here_and_over_the_hosts(hosts: Lab) -> None:
    show = ["sh", "-c", "echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname)"]
    there = sh(*hosts.mpiexec("n1", "n3"), *show)
    assert sorted(there.splitlines()) == ["0 of 2 on n1", "1 of 2 on n3"]
    assert len(sh(*hosts.mpiexec(), "-np", "2", *show).splitlines()) == 2


def test_slurm_hands_out_the_gpus_that_were_asked_for(slurm: Slurm, tmp_path: Path) -> None:
    said = tmp_path / "said.txt"
    script = "hostname; echo visible $CUDA_VISIBLE_DEVICES of $SLURM_JOB_GPUS"
    for gres, expected in {
        "gpu:k80:2": "n1\nvisible 0,1 of 0,1\n",
        "gpu:p100:1": "n2\nvisible 0 of 0\n",
    }.items():
        done = slurm.run("sbatch", "--wait", f"--output={said}", f"--gres={gres}", "--wrap", script)
        assert done.returncode == 0, done.stderr
        assert said.read_text() == expected
    refused = slurm.run("sbatch", "--gres=gpu:p100:3", "--wrap", "true")
    assert refused.returncode != 0
    assert "not available" in refused.stderr


def test_slurm_runs_tasks_on_several_hosts(slurm: Slurm) -> None:
    show = ["sh", "-c", "echo $SLURM_PROCID of $SLURM_NTASKS on $(hostname)"]
    said = slurm.run("srun", "--nodes=2", "--ntasks=2", *show)
    assert sorted(said.stdout.splitlines()) == ["0 of 2 on n1", "1 of 2 on n2"], said.stderr


def test_nothing_of_a_lab_is_left_when_it_is_down(hosts: Lab) -> None:
    other = Lab.up()
    assert other.number != hosts.number
    pids = [host.pid for host in other]
    orphan = other["n1"].start("sh", "-c", "setsid sleep 88.8 & sleep 0.2")
    orphan.wait()
    other.down()
    assert not any(pid.alive for pid in pids)
    assert "sleep 88.8" not in sh("ps", "-eo", "args")
    assert f"{other.bridge}:" not in sh("ip", "link")
    assert not other.folder.exists()


def test_a_lab_whose_owner_was_killed_is_taken_away(hosts: Lab) -> None:
    script = "import os, lab; print(lab.Lab.up().number, flush=True); os.kill(os.getpid(), 9)"
    died = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    left = Lab(int(died.stdout))
    pid = Pid.read(left.folder / "n1.pid")
    assert pid.alive
    again = Lab.up()
    try:
        assert again.number == left.number
        assert not pid.alive
    finally:
        again.down()
