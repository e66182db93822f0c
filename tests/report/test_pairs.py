"""Cells of a store in pairs: of one run round by round, of several as they are, of unlike machines
not at all."""

from pathlib import Path

import pytest
from made_up import failed, made, store_of

from convdyno.errors import UnknownName, UsageError
from convdyno.report.cell import cell_of
from convdyno.report.cells import Gathered, gather
from convdyno.report.comparisons import (
    Pair,
    check_axis,
    compare_cells,
    judge,
    pairs_along,
    strangers_along,
)
from convdyno.store.folder import Store
from convdyno.store.record import Record

LATER = "2026-11-17T04:00:00.000+00:00"


def gathered(folder: Path, *records: Record) -> Gathered:
    return gather([store_of(folder, *records)])


def compared(found: Gathered, axis: str = "engine", against: str | None = None) -> list[Pair]:
    certificates = {
        (one.network, one.manner): one for store in found.stores for one in store.certificates()
    }
    return judge(pairs_along(axis, found.cells, against), certificates)


def test_cells_of_one_run_are_compared_round_by_round(tmp_path: Path) -> None:
    found = gathered(tmp_path, made(100), made(125, engine="jax"))
    (pair,) = compared(found)
    assert pair.values == ("jax", "torch")
    assert pair.paired
    assert pair.found.ratio == pytest.approx(1.25, rel=0.02)
    assert pair.found.verdict == "faster"
    assert pair.found.high is not None
    assert pair.found.high < 1.3, "the drift of the machine, 5 %, is not in a paired interval"


def test_cells_of_different_runs_are_called_unpaired_and_have_a_wider_interval(
    tmp_path: Path,
) -> None:
    one, other = made(100), made(125, engine="jax", run="r2", created=LATER)
    (pair,) = compared(gathered(tmp_path, one, other))
    assert not pair.paired
    assert pair.how == "unpaired"
    assert pair.found.low is not None
    assert pair.found.low < 1.2


def test_a_run_that_has_both_is_preferred_to_newer_ones_that_do_not(tmp_path: Path) -> None:
    newer = made(90, run="r2", created=LATER)
    (pair,) = compared(gathered(tmp_path, made(100), made(125, engine="jax"), newer))
    assert pair.paired
    assert pair.a.run == pair.b.run == "r1"


def test_unlike_machines_are_not_compared_and_it_is_said(tmp_path: Path) -> None:
    found = gathered(tmp_path, made(100), made(125, engine="jax", host="two"))
    assert compared(found) == []
    (strangers,) = strangers_along("engine", found.cells)
    assert "unlike machines: jax on two: AMD EPYC, 2 cores; torch on one" in str(strangers)


def test_machines_are_compared_when_they_are_what_is_asked_about(tmp_path: Path) -> None:
    (pair,) = compared(gathered(tmp_path, made(100), made(150, host="two", run="r2")), "machine")
    assert not pair.paired
    assert pair.found.ratio == pytest.approx(1 / 1.5, rel=0.05)


def test_engines_without_a_certificate_are_not_compared(tmp_path: Path) -> None:
    (pair,) = compared(gathered(tmp_path, made(100), made(125, engine="tensorflow")))
    assert pair.found.ratio is None
    assert "no certificate for tensorflow" in pair.found.reason


def test_another_network_of_the_same_name_is_not_compared(tmp_path: Path) -> None:
    one, other = made(100), made(125, precision="bf16")
    assert one.network is not None
    changed = other.but(network=one.network.model_copy(update={"digest": "e"}))
    assert compared(gathered(tmp_path / "a", one, other), "precision")
    assert not compared(gathered(tmp_path / "b", one, changed), "precision")


def test_only_cells_that_differ_in_nothing_else_are_pairs(tmp_path: Path) -> None:
    cells = [made(100), made(125, engine="jax", batch=64), made(90, precision="bf16")]
    found = gathered(tmp_path, *cells)
    assert compared(found) == []
    assert [pair.values for pair in compared(found, "precision")] == [("bf16", "fp32")]


def test_labels_are_an_axis(tmp_path: Path) -> None:
    cells = [made(100, labels={"branch": "main"}), made(90, labels={"branch": "new"})]
    found = gathered(tmp_path, *cells)
    (pair,) = compared(found, check_axis("label.branch", found.cells))
    assert pair.values == ("main", "new")


def test_conditions_that_nobody_asked_for_are_named(tmp_path: Path) -> None:
    one, other = made(100), made(125, precision="bf16", versions={"torch": "2.0"})
    (pair,) = compared(gathered(tmp_path, one, other), "precision")
    assert pair.conditions() == {"torch": ["2.0", "1.2.3"]}


def test_many_values_are_compared_with_the_fastest_alone(tmp_path: Path) -> None:
    cells = [made(100 + threads, threads=threads) for threads in range(1, 12)]
    pairs = compared(gathered(tmp_path, *cells), "threads")
    assert len(pairs) == 10
    assert {pair.values[1] for pair in pairs} == {"11"}


def test_all_are_compared_with_one_that_is_named(tmp_path: Path) -> None:
    cells = [made(100, batch=batch) for batch in (8, 16, 32)]
    pairs = compared(gathered(tmp_path, *cells), "batch", against="16")
    assert [pair.values for pair in pairs] == [("8", "16"), ("32", "16")]


def test_one_round_gives_a_number_and_no_verdict(tmp_path: Path) -> None:
    (pair,) = compared(gathered(tmp_path, made(100, rounds=1), made(200, engine="jax", rounds=1)))
    assert pair.found.ratio == pytest.approx(2.0, rel=0.05)
    assert pair.found.low is None
    assert pair.found.verdict == "undecided"


def test_what_was_not_measured_or_was_a_gate_s_is_left_out(tmp_path: Path) -> None:
    found = gathered(tmp_path, made(100), failed(engine="jax"), made(90, role="base", batch=8))
    assert not any(compared(found, axis) for axis in ("engine", "batch"))


@pytest.mark.parametrize(
    ("axis", "answer"),
    [("engin", "Did you mean 'engine'"), ("label.x", "no axis is called 'label.x'")],
)
def test_an_axis_that_there_is_not_is_answered_with_the_nearest(axis: str, answer: str) -> None:
    with pytest.raises(UnknownName, match=answer):
        check_axis(axis, [])


def test_a_device_that_was_chosen_is_the_device_that_it_became(tmp_path: Path) -> None:
    """Both of these ran on processors: there is nothing to compare."""
    records = made(100), made(90, device="cpu")
    assert compared(gathered(tmp_path / "same", *records), "device") == []
    assert compare_cells([cell_of(record) for record in records]) == []
    chosen = {"device": "cuda:0", "device_name": "A100", "layout": "nhwc"}
    on_gpu = made(300).but(settings=chosen)
    (pair,) = compared(gathered(tmp_path / "two", on_gpu, made(90, device="cpu")), "device")
    assert pair.values == ("cpu", "cuda")


def test_devices_are_a_curve_and_no_rivals() -> None:
    with pytest.raises(UsageError, match="as a curve or a ladder"):
        check_axis("devices", [])


def test_what_is_no_record_is_named_and_skipped(tmp_path: Path) -> None:
    folder = store_of(tmp_path, made(100))
    (folder / "half.json").write_text('{"schema_version": 1, "id": "x"')
    (folder / "foreign.json").write_text('{"name": "package"}')
    (folder / "list.json").write_text("[1, 2]")
    (folder / "newer.json").write_text('{"schema_version": 99}')
    found = gather([folder])
    assert len(found.cells) == 1
    told = "\n".join(found.skipped)
    for words in ("half.json is not a record: it is not complete JSON", "foreign.json",
        "list.json", "newer.json is not a record: it has schema 99"):  # fmt: skip
        assert words in told
    assert Store(folder).folder == found.stores[0].folder


def test_a_certificate_of_other_code_or_manner_is_named_beside_the_ratio(tmp_path: Path) -> None:
    (pair,) = compared(gathered(tmp_path, made(100), made(125, engine="jax")))
    assert pair.found.ratio is not None
    assert "certified by other code than was measured: jax, torch" in pair.sentence
    halves = gathered(
        tmp_path / "halves", made(100, precision="bf16"), made(125, engine="jax", precision="bf16")
    )
    (pair,) = compared(halves)
    assert "certified in another manner only: jax (native), torch (native)" in pair.sentence
