"""Frameworks on several hosts: they train together, notice a lost link, and wait for slow ones."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import runs
from lab import Lab
from lab_host import wait_for

from convdyno.store.folder import Store

pytestmark = pytest.mark.usefixtures("briefly")

SMALL = ("bench", "deepmnist", "--batch", "4", "--rounds", "1", "--within", "any")
TRAINING = ("--batch", "4", "--image-size", "14", "--rate", "0.02", "--epochs", "2")
NETWORK = """
def bare(net, classes):
    return net.image.conv_relu(4, 3, stride=2).conv_relu(4, 3).mean().logits(classes).done()
"""


def over(lab: Lab, *devices: int) -> list[str]:
    counts = ",".join(map(str, devices))
    return ["--nodes", str(lab.nodes), "--ssh-config", str(lab.ssh_config), "--devices", counts,
            "--rank-timeout", "60s"]  # fmt: skip


@pytest.mark.parametrize(
    "engine, devices",
    [
        ("jax", (2,)),
        ("tensorflow", (2,)),
        # Six processes of JAX: each count of hosts is a trial of its own.
        pytest.param("jax", (1, 2, 3), marks=pytest.mark.long),
    ],
)
def test_a_framework_trains_on_several_hosts(
    convdyno: Any, hosts: Lab, engine: str, devices: tuple[int, ...]
) -> None:
    done = convdyno(*SMALL, "--engine", engine, *over(hosts, *devices), "--json")
    assert done.code == 0, done.err
    cells = {cell["trial"]["devices"]: cell for cell in done.json["cells"]}
    assert {count: cell["status"] for count, cell in cells.items()} == dict.fromkeys(devices, "ok")
    for cell in cells.values():
        assert cell["trial"]["hosts"] == cell["trial"]["devices"]
        assert cell["images_per_second"] > 0


@pytest.mark.parametrize(
    "engine",
    # A minute each; that a stopped rank of each framework is named, tests/launch shows.
    ["torch", *(pytest.param(name, marks=pytest.mark.long) for name in ("jax", "tensorflow"))],
)
def test_a_cut_link_is_named_and_ends_the_trial(
    convdyno: Any, hosts: Lab, engine: str, tmp_path: Path
) -> None:
    def cut_when_measured() -> None:
        wait_for(lambda: _measured(tmp_path / "results"), "ranks that are measured")
        hosts["n2"].cut()

    cutter = threading.Thread(target=cut_when_measured, daemon=True)
    cutter.start()
    words = [*over(hosts, 2), "--rank-timeout", "10s", "--budget", "5m", "--rounds", "20"]
    done = convdyno(*SMALL, "--within", "0.01%", "--engine", engine, *words, "--json")
    cutter.join()
    (cell,) = done.json["cells"]
    assert cell["status"] == "failed", done.err
    assert "rank 1 on n2" in cell["reason"]
    assert not hosts["n1"].processes("convdyno.")
    wait_for(lambda: not hosts["n2"].processes("convdyno."), "nothing on the lost host")


def _measured(folder: Path) -> bool:
    """Whether a turn has been written down; the next one goes on."""
    return folder.is_dir() and any(record.measured for record in Store(folder).records())


@pytest.mark.long  # Two benches of real training over links of known speed: minutes.
def test_a_slow_link_is_what_limits_a_network_of_many_weights(convdyno: Any, hosts: Lab) -> None:
    words = ("bench", "vgg11", "--engine", "torch", "--width", "0.25", "--image-size", "64")
    words += ("--classes", "10", "--batch", "64", "--exchange", "default,independent")
    words += ("--threads", "1")
    words += ("--rounds", "3", "--budget", "4m", "--within", "30%", *over(hosts, 2))
    for name in ("n1", "n2"):
        hosts[name].shape("100mbit")
    slow = _limit(convdyno(*words, "--json"))
    for name in ("n1", "n2"):
        hosts[name].unshape()
    quick = _limit(convdyno(*words, "--json"))
    assert slow["limit"] == "communication"
    assert slow["exchange"]["share"] > 0.3
    assert quick["limit"] != "communication"
    assert quick["share"]["share"] < slow["share"]["share"] / 2


def _limit(done: Any) -> Any:
    assert done.code == 0, done.err
    points = [p for curve in done.json["scaling"] for p in curve["points"] if p["communication"]]
    return points[0]["communication"]


def test_ranks_on_several_hosts_are_adopted_and_share_their_cores(
    hosts: Lab, tmp_path: Path
) -> None:
    command = [*hosts.mpiexec("n1", "n2", each=2), sys.executable, "-m", "convdyno", *SMALL]
    done = subprocess.run(
        [*command, "--engine", "torch", "--json"], cwd=tmp_path, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (record,) = Store(tmp_path / "results").records()
    assert (record.trial.devices, record.trial.hosts, record.trial.cores) == (4, 2, 1)
    ranks = record.processes[0].ranks
    assert [(rank.host, rank.local_rank) for rank in ranks] == [
        ("n1", 0), ("n1", 1), ("n2", 0), ("n2", 1),
    ]  # fmt: skip
    assert [len(rank.cores) for rank in ranks] == [1, 1, 1, 1]
    assert ranks[0].cores != ranks[1].cores
    assert ranks[2].cores != ranks[3].cores


def test_mpiexec_and_torchrun_train_as_our_own_launcher_does(hosts: Lab, tmp_path: Path) -> None:
    runs.prepare(tmp_path, train=64)
    with (tmp_path / "mine.py").open("a") as file:
        file.write(NETWORK)
    words = ["train", "mine:bare", "--data", "bars", "--engine", "torch", *TRAINING]
    words += ["--display-every", "1", "--rank-timeout", "60s"]
    torchrun = shutil.which("torchrun", path=str(Path(sys.executable).parent))
    assert torchrun is not None
    starters = {
        "ours": [sys.executable, "-m", "convdyno", *words, "--devices", "2"],
        "mpiexec": [*hosts.mpiexec(), "-np", "2", sys.executable, "-m", "convdyno", *words],
        "torchrun": [torchrun, "--nproc-per-node", "2", "-m", "convdyno", *words],
    }
    losses = {}
    for name, command in starters.items():
        subprocess.run(
            [*command, "--log-dir", name], cwd=tmp_path, check=True, capture_output=True,
            timeout=300,
        )  # fmt: skip
        lines = (tmp_path / name / "history.jsonl").read_text().splitlines()
        steps = [line for line in map(json.loads, lines) if line["kind"] == "step"]
        losses[name] = [step["loss"] for step in steps]
    assert len(losses["ours"]) == 16
    assert losses["mpiexec"] == pytest.approx(losses["ours"], rel=1e-5)
    assert losses["torchrun"] == pytest.approx(losses["ours"], rel=1e-5)
