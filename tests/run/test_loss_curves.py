"""All engines go down the same curve: k steps from the same weights and batches."""

import json
from pathlib import Path
from typing import Any

import pytest
import runs

ENGINES = ("torch", "jax", "tensorflow", "keras/torch", "keras/jax", "keras/tensorflow")
TOLERANCE = 1e-3
"""Of each of the first 40 losses, relative; float32 against the reference's float64."""
RULES = {
    "sgd": ("--optimiser", "sgd", "--schedule", "cosine", "--warmup", "1", "--warmup-from", "0.1"),
    "adam": ("--optimiser", "adam", "--schedule", "steps:2=0.1", "--warmup", "0"),
}


def curve(folder: Path, run: str) -> list[float]:
    lines = [json.loads(line) for line in (folder / run / "history.jsonl").open()]
    return [line["loss"] for line in lines if line["kind"] == "step"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
def test_every_engine_has_the_references_losses(tmp_path: Path, rule: str) -> None:
    runs.prepare(tmp_path, train=80)
    more = (*runs.SIZE, *RULES[rule], "--clip-norm", "1", "--epochs", "4", "--display-every", "1")
    runs.finish(tmp_path, runs.PLAIN, "reference", "--engine", "reference", *more)
    expected = curve(tmp_path, "reference")
    assert len(expected) == 40 and expected[-1] < expected[0]
    found: dict[str, Any] = {}
    for engine in ENGINES:
        run = engine.replace("/", "-")
        runs.finish(tmp_path, runs.PLAIN, run, "--engine", engine, *more)
        found[engine] = curve(tmp_path, run)
    for engine, losses in found.items():
        assert losses == pytest.approx(expected, rel=TOLERANCE), engine
