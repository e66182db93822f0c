"""`convdyno tune`: real workers whose settings have planted effects."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from convdyno.store.folder import Store
from convdyno.store.preset import read_preset

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/tune.json").read_text())
TUNE = ("tune", "trivial", "--engine", "clockwork", "--within", "20%", "--budget", "180s")
QUIET = "within=0.01;between=0.002"
SCRIPT = f"step=0.002;nchw=1.3;nhwc=0.8;compiled=1.25;{QUIET}"


def test_the_settings_that_matter_are_found_with_their_size(convdyno: Any, tmp_path: Path) -> None:
    outcome = convdyno(*TUNE, "--device", SCRIPT, "--batch", "16", "--json")
    document = outcome.json
    jsonschema.validate(document, SCHEMA)
    assert outcome.code == 0
    assert document["faster"]
    trial = document["winner"]["trial"]
    assert (trial["batch"], trial["layout"], trial["compile"]) == (16, "nhwc", "auto")
    assert document["gain"]["ratio"] == pytest.approx(1.25, rel=0.03)
    low, high = document["gain"]["interval"]
    assert low < document["gain"]["ratio"] < high
    effects = {effect["factor"]: effect for effect in document["effects"]}
    assert effects["layout"]["verdict"] == "faster"
    assert effects["compile"]["instead_of"] == "on"
    assert effects["compile"]["ratio"] == pytest.approx(1.25, rel=0.03)
    searched = {record.role for record in Store(tmp_path / "results" / "tune").records()}
    assert searched == {"search", "tune"}
    assert not list((tmp_path / "results").glob("*.json"))
    preset = read_preset(tmp_path / document["preset"]["file"])
    assert preset.name == "trivial-clockwork"
    assert (preset.settings.layout, preset.settings.batch) == ("nhwc", 16)
    assert preset.gain is not None
    assert preset.gain.ratio == document["gain"]["ratio"]
    bench = convdyno(
        "bench", "--preset", "trivial-clockwork", "--device", SCRIPT, "--within", "50%", "--json"
    )
    assert bench.json["cells"][0]["trial"]["layout"] == "nhwc"


def test_the_figures_are_from_processes_after_the_search(
    convdyno_process: Any, tmp_path: Path
) -> None:
    convdyno_process(*TUNE, "--device", SCRIPT, "--batch", "16", "--compile", "off", "--json")
    records = list(Store(tmp_path / "results" / "tune").records())
    pids = [{p.pid for r in records if r.role == role for p in r.processes} for role in
            ("search", "tune")]  # fmt: skip
    assert pids[0]
    assert pids[1]
    assert not pids[0] & pids[1]


def test_the_batch_is_searched_for_throughput_as_far_as_memory_goes(convdyno: Any) -> None:
    script = f"step=0.002;image=0.00002;most=40;{QUIET}"
    outcome = convdyno(*TUNE, "--device", script, "--layout", "auto", "--compile", "auto")
    assert outcome.code == 0
    assert "a batch of 128 does not fit: " in outcome.err
    assert "the batch was searched for throughput" in outcome.out
    assert "partly lucky" in outcome.out
    assert "out of memory with" in outcome.out
    assert "nothing that was tried is faster" in outcome.out


def test_where_nothing_is_faster_the_default_stays(convdyno: Any, tmp_path: Path) -> None:
    script = f"step=0.002;nchw=1.2;nhwc=1.2;compiled=1.2;{QUIET}"
    outcome = convdyno(*TUNE, "--device", script, "--batch", "16", "--name", "plain", "--json")
    jsonschema.validate(outcome.json, SCHEMA)
    assert outcome.code == 0
    assert not outcome.json["faster"]
    preset = read_preset(tmp_path / "results" / "presets" / "plain.toml")
    assert (preset.settings.layout, preset.settings.compile, preset.gain) == ("auto", "auto", None)


def test_a_preset_may_be_kept_for_all_projects(convdyno: Any, tmp_path: Path) -> None:
    home = os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    words = ("--device", SCRIPT, "--batch", "16", "--compile", "off", "--own", "--json")
    assert convdyno(*TUNE, *words, env=home).code == 0
    assert (tmp_path / "config/convdyno/presets/trivial-clockwork.toml").is_file()


def test_the_largest_batch_may_be_held(convdyno: Any) -> None:
    script = f"step=0.002;nhwc=0.8;most=50;{QUIET}"
    outcome = convdyno(*TUNE, "--device", script, "--batch", "max", "--compile", "off", "--json")
    assert 47 <= outcome.json["winner"]["trial"]["batch"] <= 50
    assert outcome.json["winner"]["trial"]["layout"] == "nhwc"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--device", "fail=crash;at=1"), 5, "the default settings: the worker died"),
        (("--device", "most=1", "--batch", "8"), 5, "the default settings: out of memory"),
        (("--device", "most=0"), 5, "nothing fits, not even one image"),
        (("--device", "step=1", "--budget", "0.000001s"), 4, "nothing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_search_that_cannot_begin_says_why(
    convdyno: Any, words: tuple[str, ...], code: int, said: str
) -> None:
    outcome = convdyno(*TUNE, *words, "--json")
    assert outcome.code == code
    assert said in outcome.err
    assert outcome.out == ""


CASES = [
    ((), "which network?"),
    (("trivail",), "Did you mean 'trivial'"),
    (("trivial,lenet",), "tune is for one network"),
    (("trivial", "--engine", "torch,jax"), "tune is for one network"),
    (("trivial", "--batch", "16,32"), "tune is for one network"),
    (("trivial", "--name", "a/b"), "a preset's name has letters"),
    (("trivial", "--budget", "soon"), "--budget is a time"),
    (
        ("trivial", "--batch", "8", "--layout", "nhwc", "--compile", "off", "--threads", "1",
         ),
        "nothing to search",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), CASES, ids=[" ".join(w) for w, _ in CASES])
def test_bad_input_is_one_sentence(
    convdyno: Any, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    engine = () if "--engine" in words else ("--engine", "clockwork")
    outcome = convdyno("tune", *words, *engine)
    assert outcome.code == 2
    assert said in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
