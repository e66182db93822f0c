"""Records that 0.1.0 wrote are read, and give the figures that 0.1.0 gave.

The folder beside this file has records of every kind: measured, interrupted, failed, on several
devices, with a ladder, of a gate, a certificate, a preset and a run of training. `report.json` and
`report.csv` are what 0.1.0 itself made of them.
"""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

KEPT = Path(__file__).parent / "records-0.1.0"


@pytest.fixture(autouse=True)
def copied(tmp_path: Path) -> None:
    """A copy where commands run, because reading leaves an index."""
    shutil.copytree(KEPT, tmp_path, dirs_exist_ok=True)


def missing(old: Any, new: Any, where: str = "") -> list[str]:
    """Where something of the old document is gone or has another value; more is welcome."""
    if isinstance(old, dict):
        if not isinstance(new, dict):
            return [where]
        return [
            place
            for name, value in old.items()
            for place in missing(value, new.get(name, "gone"), f"{where}/{name}")
            if not (name == "command" and same_words(value, new.get(name)))
        ]
    if isinstance(old, list):
        if not isinstance(new, list) or len(old) != len(new):
            return [where]
        return [
            place
            for number, (a, b) in enumerate(zip(old, new, strict=True))
            for place in missing(a, b, f"{where}/{number}")
        ]
    if isinstance(old, float):
        return [] if new == pytest.approx(old, rel=1e-9) else [where]
    return [] if old == new else [where]


def same_words(old: str, new: str) -> bool:
    """Options of a command may stand in another order."""
    return sorted(old.split()) == sorted(new.split())


def test_the_report_of_earlier_records_says_what_it_said(convdyno: Any) -> None:
    told = convdyno("report", "results", "run", "--json")
    assert told.code == 0, told.err
    before = json.loads((KEPT / "report.json").read_text())
    del before["convdyno"]
    assert len(before["cells"]) > 15
    # Its certificate did not say by what code it was made.
    changed = missing(before, told.json)
    # What to mind of disturbed blocks is told in other words now, and who infers gives no rate.
    commands = {path: told.json["cells"][int(path.split("/")[2])] for path in changed[:2]}
    assert [cell["trial"]["mode"] for cell in commands.values()] == ["infer", "infer"]
    others = [path for path in changed if "/warnings/" not in path and path not in commands]
    assert others == ["/comparisons/1/reason"]
    told_of = {text for cell in told.json["cells"] for text in cell["warnings"]}
    assert any("in every round, so the speed without it is not known" in text for text in told_of)
    assert "certified by other code" in told.json["comparisons"][1]["reason"]


def test_the_table_of_earlier_records_has_its_columns_and_values(
    tmp_path: Path, convdyno: Any
) -> None:
    told = convdyno("report", "results", "--csv", "all.csv")
    assert told.code == 0, told.err
    before, after = (
        list(csv.DictReader(path.open())) for path in (KEPT / "report.csv", tmp_path / "all.csv")
    )
    assert len(before) == len(after) > 15
    for old, new in zip(before, after, strict=True):
        changed = [name for name in old if not same(old[name], new.get(name))]
        assert changed == []


def same(old: str, new: str | None) -> bool:
    if old == new or new is None:
        return old == new
    try:
        return float(new) == pytest.approx(float(old), rel=1e-9)
    except ValueError:
        return False


def test_an_earlier_preset_certificate_and_gate_are_read(convdyno: Any) -> None:
    listed = convdyno("results", "list", "--json")
    assert listed.code == 0, listed.err
    gate = convdyno("report", "results/gate", "--json")
    assert gate.code == 0, gate.err
    assert {cell["trial"]["layout"] for cell in gate.json["cells"]} == {"auto", "nchw"}
    used = convdyno(
        "bench", "deepmnist", "--engine", "clockwork", "--preset", "deepmnist-clockwork",
        "--rounds", "1", "--within", "any", "--budget", "60s", "--json",
    )  # fmt: skip
    assert used.code == 0, used.err
    (cell,) = used.json["cells"]
    assert (cell["trial"]["batch"], cell["trial"]["layout"]) == (100, "nhwc")
