"""Joules are read from counters where they can be, never counted twice and never made up."""

import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from convdyno.launch.joint_answer import all_energy, joint_blocks
from convdyno.run import energy
from convdyno.run.energy import Counter, Joules, find
from convdyno.run.measure import Meter

RANGE = 100_000_000
"""Microjoules at which the counters of the tree begin again."""


class Tree:
    """RAPL's zones as Linux shows them, in a folder of our own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def zone(self, number: str, name: str, microjoules: int = 0) -> Path:
        zone = self.folder / f"intel-rapl:{number}"
        zone.mkdir()
        (zone / "name").write_text(f"{name}\n")
        (zone / "max_energy_range_uj").write_text(f"{RANGE}\n")
        self.set(number, microjoules)
        return zone

    def set(self, number: str, microjoules: int) -> None:
        path = self.folder / f"intel-rapl:{number}" / "energy_uj"
        part = path.with_suffix(".part")
        part.write_text(f"{microjoules}\n")
        part.replace(path)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Two packages with everything below them, and the platform that contains both."""
    tree = Tree(tmp_path / "powercap")
    for package in "01":
        tree.zone(package, f"package-{package}")
        for number, name in enumerate(("core", "uncore", "dram")):
            tree.zone(f"{package}:{number}", name)
    tree.zone("2", "psys")
    again = tree.folder / "intel-rapl-mmio:0"
    again.mkdir()
    (again / "name").write_text("package-0\n")
    return tree


def test_packages_and_memory_are_added_up_and_nothing_that_they_contain(tree: Tree) -> None:
    joules = find("cpu", powercap=tree.folder)
    assert joules.facts().reason == ""
    assert joules.facts().counted == (
        "package-0", "package-1", "dram of package-0", "dram of package-1"
    )  # fmt: skip
    before = joules.read()
    for number, used in {"0": 300, "0:0": 200, "0:1": 50, "0:2": 40, "1": 1000, "2": 5000}.items():
        tree.set(number, used)
    assert joules.since(before) == pytest.approx(1340e-6)


def test_a_counter_that_began_again_is_followed(tree: Tree) -> None:
    tree.set("0", RANGE - 100)
    joules = find("cpu", powercap=tree.folder)
    before = joules.read()
    tree.set("0", 250)
    assert joules.since(before) == pytest.approx(350e-6)


def test_without_a_tree_the_energy_is_unavailable_and_says_so(tmp_path: Path) -> None:
    joules = find("cpu", powercap=tmp_path / "nowhere")
    assert joules.facts().reason.startswith("no counter:")
    assert joules.facts().counted == ()
    assert joules.since(joules.read()) is None


def test_a_platform_alone_is_not_taken_for_a_package(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "powercap")
    tree.zone("0", "psys")
    assert find("cpu", powercap=tree.folder).reason


def test_counters_for_root_alone_are_named_with_what_to_do(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_bytes

    def forbidden(path: Path) -> bytes:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    # The tests may run as root, whom no mode of a file keeps out.
    monkeypatch.setattr(Path, "read_bytes", forbidden)
    joules = find("cpu", powercap=tree.folder)
    assert joules.reason.startswith("no permission:")
    assert "chmod" in joules.reason
    assert joules.since(joules.read()) is None


@pytest.mark.parametrize("rubbish", ["", "many\n", "\xff"])
def test_a_counter_that_is_no_number_is_unavailable(tree: Tree, rubbish: str) -> None:
    (tree.folder / "intel-rapl:0" / "energy_uj").write_text(rubbish, encoding="latin-1")
    assert find("cpu", powercap=tree.folder).reason.startswith("not readable:")


def test_a_counter_that_falls_silent_costs_its_block_alone(tree: Tree) -> None:
    joules = find("cpu", powercap=tree.folder)
    before = joules.read()
    (tree.folder / "intel-rapl:0" / "energy_uj").unlink()
    assert joules.since(before) is None
    tree.set("0", 10)
    assert joules.since(joules.read()) == 0


def test_ranks_of_one_machine_read_each_counter_once(tree: Tree) -> None:
    found = find("cpu", powercap=tree.folder)
    names = [counter.identity for counter in found.counters]
    everybody = [("a", names), ("a", names), ("b", names)]
    shares = [found.shared(everybody, rank) for rank in range(3)]
    assert [len(share.counters) for share in shares] == [4, 0, 4]
    assert all(share.facts() == found.facts() for share in shares)
    assert shares[1].since(shares[1].read()) == 0


def test_a_rank_with_a_gpu_of_its_own_reads_that_one() -> None:
    def rank(gpu: str) -> Joules:
        counters = tuple(Counter(n, n, lambda: 0.0) for n in ("package-0", gpu))
        return Joules(counters, names=("package-0", gpu))

    everybody = [("a", ["package-0", f"gpu {n}"]) for n in "01"]
    second = rank("gpu 1").shared(everybody, 1)
    assert [counter.name for counter in second.counters] == ["gpu 1"]


def block(seconds: float, joules: float | None) -> dict[str, Any]:
    return {
        "seconds": seconds, "steps": 1, "foreign_share": 0.0, "steal_share": 0.0, "joules": joules
    }  # fmt: skip


def test_a_crew_uses_what_its_machines_use_together() -> None:
    (joint,) = joint_blocks([[block(1.0, 100.0)], [block(1.0, 0.0)], [block(1.0, 50.0)]], False)
    assert joint["joules"] == pytest.approx(150)
    (unknown,) = joint_blocks([[block(1.0, 100.0)], [block(1.0, None)]], False)
    assert unknown["joules"] is None


def test_independent_ranks_are_charged_for_the_time_that_their_rates_give() -> None:
    (joint,) = joint_blocks([[block(1.0, 100.0)], [block(3.0, 0.0)]], True)
    assert joint["seconds"] == pytest.approx(1.5)
    assert joint["joules"] == pytest.approx(150)


def test_one_host_that_does_not_count_makes_the_whole_unknown() -> None:
    counts = {"counted": ["package-0"], "reason": ""}
    answers = [{"host": "a", "energy": counts}, {"host": "b", "energy": counts}]
    assert all_energy(answers) == {"counted": ["package-0 of a", "package-0 of b"]}
    assert all_energy(answers[:1] * 2) == {"counted": ["package-0"]}
    answers[1]["energy"] = {"counted": [], "reason": "no counter: this machine shows none"}
    assert all_energy(answers) == {"reason": "no counter: b: this machine shows none"}


class FakeNvml(SimpleNamespace):
    """As much of nvidia-ml-py as is used."""

    class NVMLError(Exception):
        pass

    def __init__(self, *kinds: str, fails: bool = False) -> None:
        super().__init__(kinds=kinds, fails=fails, millijoules=[0] * len(kinds))

    def nvmlInit(self) -> None:
        if self.fails:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.kinds)

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        return number

    def nvmlDeviceGetHandleByUUID(self, name: str) -> int:
        return int(name.removeprefix("GPU-"))

    def nvmlDeviceGetName(self, card: int) -> str:
        return self.kinds[card]

    def nvmlDeviceGetUUID(self, card: int) -> str:
        return f"GPU-{card}"

    def nvmlDeviceGetTotalEnergyConsumption(self, card: int) -> int:
        return self.millijoules[card]


def test_a_gpu_is_counted_beside_its_processors(tree: Tree, tmp_path: Path) -> None:
    nvml = FakeNvml("K80", "K80")
    joules = find("cuda:1", powercap=tree.folder, nvml=nvml)
    assert joules.names[-1] == "gpu 1"
    before = joules.read()
    nvml.millijoules = [9000, 2500]
    tree.set("0", 500_000)
    assert joules.since(before) == pytest.approx(3.0)
    assert find("cuda:0", 2, powercap=tmp_path, nvml=nvml).names == ("gpu 0", "gpu 1")


@pytest.mark.parametrize(
    ("nvml", "said"),
    [
        (FakeNvml("K80", fails=True), "Driver Not Loaded"),
        (FakeNvml("K80", "A100"), "CUDA_DEVICE_ORDER"),
    ],
)
def test_a_gpu_that_does_not_tell_makes_the_whole_unavailable(
    tree: Tree, nvml: Any, said: str
) -> None:
    joules = find("cuda:0", powercap=tree.folder, nvml=nvml)
    assert said in joules.reason
    assert joules.since(joules.read()) is None


def test_without_nvidias_library_the_sentence_names_the_extra(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(energy.importlib, "import_module", missing)
    assert "pip install 'convdyno[gpu]'" in find("cuda:0", powercap=tree.folder).reason


def test_a_block_has_the_joules_that_were_used_while_it_ran(tree: Tree) -> None:
    used = iter(range(0, 10_000, 100))

    def run(steps: int) -> None:
        tree.set("0", next(used))

    meter = Meter(run, lambda: None, time.perf_counter_ns)
    assert meter.block().joules is None
    meter.joules = find("cpu", powercap=tree.folder)
    meter.block()
    assert meter.block().joules == pytest.approx(100e-6)


def test_bench_tells_joules_and_images_per_joule(convdyno: Any, tree: Tree) -> None:
    over = threading.Event()

    def burn() -> None:  # 20 W in the first package.
        start = time.monotonic()
        while not over.wait(0.001):
            tree.set("0", int(20e6 * (time.monotonic() - start)) % RANGE)

    burning = threading.Thread(target=burn)
    burning.start()
    try:
        outcome = convdyno(
            "bench", "trivial", "--engine", "clockwork", "--batch", "10", "--rounds", "1",
            "--device", "step=0.01;clock=real;between=0;within=0", "--within", "any", "--json",
            env=os.environ | {"CONVDYNO_POWERCAP": str(tree.folder)},
        )  # fmt: skip
    finally:
        over.set()
        burning.join()
    (cell,) = outcome.json["cells"]
    assert cell["energy"]["counted"][0] == "package-0"
    assert cell["energy"]["status"] == "measured"
    assert cell["joules"] > 0
    watts = cell["images_per_second"] / cell["images_per_joule"]
    assert watts == pytest.approx(20, rel=0.3)


def test_bench_says_why_there_are_no_joules(convdyno: Any, tmp_path: Path) -> None:
    nowhere = os.environ | {"CONVDYNO_POWERCAP": str(tmp_path / "nowhere")}
    words = ("bench", "trivial", "--engine", "clockwork", "--rounds", "1", "--within", "any")
    outcome = convdyno(*words, "--json", env=nowhere)
    (cell,) = outcome.json["cells"]
    assert (cell["joules"], cell["images_per_joule"]) == (None, None)
    assert cell["energy"]["status"] == "unavailable"
    assert cell["energy"]["reason"].startswith("no counter:")
    assert "energy unavailable (no counter)" in convdyno(*words, env=nowhere).out
