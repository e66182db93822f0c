"""The scaling curve from the command line, with devices whose steps are scripted."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "bench.json"
SCRIPTED = (
    "bench", "trivial", "--engine", "clockwork", "--device", "step=0.01;within=0.01",
    "--devices", "1,2", "--batch", "16", "--budget", "20s", "--within", "20%",
)  # fmt: skip


@pytest.mark.slow
def test_a_list_of_devices_gives_a_curve_and_its_files(convdyno: Any, tmp_path: Path) -> None:
    done = convdyno(*SCRIPTED, "--exchange", "default,independent", "--json")
    assert done.code == 0, done.err
    jsonschema.validate(done.json, json.loads(SCHEMA.read_text()))
    assert done.json["comparisons"] == []
    (curve,) = done.json["scaling"]
    assert [point["exchange"] for point in curve["points"]] == ["default", "independent"]
    together, independent = curve["points"]
    assert 0.8 < together["efficiency"]["share"] < 1.2
    assert together["communication"]["independent"] == independent["cell"]
    assert [rank["rank"] for rank in independent["ranks"]] == [0, 1]
    (table,) = tmp_path.glob("results/scaling-*[0-9a-f].csv")
    head, *lines = table.read_text().splitlines()
    assert head == "gpus,images_per_sec"
    assert [line.partition(",")[0] for line in lines] == ["1", "2"]
    assert table.with_name(f"{table.name}.ideal").exists()
    assert table.with_suffix(".svg").read_text().startswith("<svg")


@pytest.mark.slow
def test_strong_scaling_shares_the_batch_out(convdyno: Any) -> None:
    done = convdyno(*SCRIPTED, "--scaling", "strong")
    assert done.code == 0, done.err
    assert "strong scaling: 16 images on all devices together" in done.out
    assert "written: results/scaling-trivial-clockwork-" in done.out
    assert "memory did not hold" not in done.out
