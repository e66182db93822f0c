"""The whole path with a real framework: small networks, real processes."""

import json
from pathlib import Path
from typing import Any

import pytest

from convdyno.zoo.registry import build

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("briefly")]

SMALL = (
    "bench", "resnet50", "--engine", "torch", "--width", "0.125", "--image-size", "64",
    "--classes", "10", "--threads", "1", "--rounds", "1", "--within", "any", "--budget", "90s",
    "--json",
)  # fmt: skip
"""One thread: two that wait for each other are slow on a machine that others use too."""


def a_record(tmp_path: Path, cell: dict[str, Any]) -> Any:
    return json.loads((tmp_path / cell["record"]).read_text())


def test_a_trained_network_has_a_rate_a_peak_and_a_falling_loss(
    convdyno: Any, tmp_path: Path
) -> None:
    outcome = convdyno(*SMALL, "--batch", "8", "--layout", "nchw,nhwc")
    for cell in outcome.json["cells"]:
        assert cell["status"] == "ok", cell["reason"]
        assert cell["images_per_second"] > 0
        assert 0 < cell["share_of_peak"] < 2
        assert cell["memory_bytes"] > 50e6
        record = a_record(tmp_path, cell)
        assert record["network"]["digest"] == build("resnet50", (64, 64), 10, 0.125).digest
        assert record["settings"]["layout"] == cell["trial"]["layout"]
        assert record["versions"]["torch"]
        first = record["processes"][0]
        assert first["last_loss"] < first["first_loss"]
        assert {peak["kind"] for peak in first["peaks"]} == {"matmul", "conv", "copy"}
    losses = [
        a_record(tmp_path, cell)["processes"][0]["first_loss"] for cell in outcome.json["cells"]
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_inference_latency_fed_by_the_host(convdyno: Any) -> None:
    outcome = convdyno(
        *SMALL, "--batch", "4", "--mode", "infer", "--latency", "--data", "synthetic-host"
    )
    (cell,) = outcome.json["cells"]
    assert cell["status"] == "ok", cell["reason"]
    assert cell["latency"]["p50_seconds"] > 0


def test_an_absurd_batch_is_out_of_memory_and_a_wrong_precision_refused(convdyno: Any) -> None:
    outcome = convdyno(*SMALL, "--batch", "1000000000", "--precision", "fp32,tf32")
    absurd, refused = outcome.json["cells"]
    assert outcome.code == 5
    assert refused["status"] == "refused"
    assert "use fp32, bf16" in refused["reason"]
    assert absurd["status"] == "oom"
    assert "1000000000 images per device" in absurd["reason"]


def test_a_rate_that_explodes_is_a_lost_loss(convdyno: Any) -> None:
    outcome = convdyno(
        "bench", "vgg11", "--engine", "torch", "--width", "0.125", "--image-size", "32",
        "--batch", "4", "--rate", "1e9", "--json",
    )  # fmt: skip
    (cell,) = outcome.json["cells"]
    assert cell["status"] == "nan"
    assert "learning rate" in cell["reason"]
