"""How much memory is free: the machine's, and a container's where it has less."""

from pathlib import Path

import psutil
import pytest

from convdyno.machine.facts import free_memory


def group(folder: Path, most: str, used: str, held: str = "") -> str:
    for name, text in (("max", most), ("current", used), ("stat", held)):
        (folder / f"memory.{name}").write_text(text + "\n")
    return str(folder)


def test_a_container_may_have_less_than_its_machine(tmp_path: Path) -> None:
    assert free_memory(group(tmp_path, "1000000", "400000")) == 600_000
    held = "anon 5\ninactive_file 100000\nactive_file 7"
    assert free_memory(group(tmp_path, "1000000", "400000", held)) == 700_000
    assert free_memory(group(tmp_path, "1000", "4000")) == 0


@pytest.mark.parametrize("most", ["max", "", str(1 << 60)])
def test_without_a_limit_it_is_the_machines(tmp_path: Path, most: str) -> None:
    free = psutil.virtual_memory().available
    assert free_memory(group(tmp_path, most, "1000")) == pytest.approx(free, rel=0.2)
    assert free_memory(str(tmp_path / "nowhere")) == pytest.approx(free, rel=0.2)
