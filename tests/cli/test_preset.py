"""Presets: written whole, found by name, and outdone by whatever is given."""

import os
from pathlib import Path
from typing import Any

import pytest

from convdyno.errors import UsageError
from convdyno.store.folder import Store
from convdyno.store.preset import (
    Gain,
    Preset,
    Settings,
    check_name,
    find_preset,
    own_folder,
    read_preset,
)

FAST = Preset(
    name="fast",
    network="trivial",
    engine="clockwork",
    host='a "strange" \x7f host\n',
    machine="Prozessor, 2 Kerne ü",
    command="convdyno tune trivial",
    versions={"torch": "2.13.0+cpu", "a b": "1"},
    settings=Settings(batch=24, layout="nhwc", compile="on", threads=1, bucket_mb=2.5),
    gain=Gain(ratio=1.25, low=1.2, high=1.3, rounds=4),
)
BENCH = ("bench", "--engine", "clockwork", "--budget", "60s", "--rounds", "2", "--within", "any")


def test_a_preset_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = FAST.write(tmp_path)
    assert path == tmp_path / "presets" / "fast.toml"
    assert read_preset(path) == FAST
    assert [p.name for p in path.parent.iterdir()] == ["fast.toml"]


def test_it_is_found_here_before_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own = FAST.model_copy(update={"settings": Settings(batch=7)})
    own.write(own_folder())
    assert find_preset("fast", tmp_path / "results") == own
    FAST.write(tmp_path / "results")
    assert find_preset("fast", tmp_path / "results") == FAST
    assert find_preset(str(tmp_path / "results/presets/fast.toml"), tmp_path) == FAST
    with pytest.raises(UsageError, match="Did you mean 'fast'"):
        find_preset("fats", tmp_path / "results")


@pytest.mark.parametrize("name", ["", "../up", "a b", ".hidden", "x" * 200, "a/b"])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="a preset's name"):
        check_name(name)


def test_bench_takes_settings_from_a_preset_and_the_record_says_so(
    convdyno: Any, tmp_path: Path
) -> None:
    FAST.write(tmp_path / "results")
    outcome = convdyno("bench", "--preset", "fast", *BENCH[3:], "--json")
    assert outcome.code == 0
    (record,) = Store(tmp_path / "results").records()
    assert record.preset == "fast"
    trial = record.trial
    assert (trial.network, trial.engine) == ("trivial", "clockwork")
    assert (trial.batch, trial.layout, trial.compile, trial.threads) == (24, "nhwc", "on", 1)


def test_what_is_given_wins_even_where_it_is_the_default(convdyno: Any, tmp_path: Path) -> None:
    FAST.write(tmp_path / "results")
    given = ("--batch", "8", "--layout", "auto")
    outcome = convdyno(*BENCH, "trivial", "--preset", "fast", *given, "--json")
    (cell,) = outcome.json["cells"]
    trial = cell["trial"]
    assert (trial["batch"], trial["layout"], trial["compile"]) == (8, "auto", "on")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("resnet50", "--preset", "fast"), "is for trivial, not for resnet50"),
        (("trivial", "--preset", "fast", "--engine", "torch"), "is for clockwork, not for torch"),
        (("trivial", "--preset", "fats"), "Did you mean 'fast'"),
        (("trivial", "--preset", "a b"), "a preset's name has letters"),
        (("trivial", "--preset", "broken"), "is not TOML"),
        (("trivial", "--preset", "foreign"), "is no preset: settings.layout"),
        (("trivial", "--preset", "x", "--out", "empty"), "`convdyno tune` makes them"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_sentence(
    convdyno: Any, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    folder = FAST.write(tmp_path / "results").parent
    (folder / "broken.toml").write_text("layout = nhwc")
    (folder / "foreign.toml").write_text(FAST.to_toml().replace('"nhwc"', '"nhcw"'))
    home = os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    outcome = convdyno("bench", *words, env=home)
    assert outcome.code == 2
    assert said in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
