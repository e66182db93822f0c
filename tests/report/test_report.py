"""What is printed is derived from the blocks, once, and safely."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from convdyno.report.bench_json import bench_document, to_json
from convdyno.report.cell import cell_of
from convdyno.report.comparisons import Pair, compare_cells
from convdyno.report.console import Screen
from convdyno.report.csv import write_csv
from convdyno.report.format import gmac, noun, percent, quantity, rate, span
from convdyno.stats.compare import Comparison
from convdyno.store.certificate import Certificate, EngineProof
from convdyno.store.record import Block, NetworkFacts, Peak, Process, Record, new_record
from convdyno.trial.manner import Manner
from convdyno.trial.spec import make_trial

FACTS = NetworkFacts(
    digest="d", parameters=10, macs=1_000_000, image=(8, 8, 3), classes=10, nodes=3
)


def a_record(step_seconds: float = 0.1, rounds: int = 3, **trial: Any) -> Record:
    values = {"network": "trivial", "engine": "clockwork", "batch": 20} | trial
    processes = tuple(
        Process(
            round=number,
            steady=True,
            blocks=tuple(
                Block(seconds=2 * step_seconds * (1 + 0.01 * number), steps=2, turn=turn)
                for turn in range(4)
            ),
            peaks=(Peak(kind="matmul", per_second=6e9), Peak(kind="conv", per_second=4e9)),
            peak_memory_bytes=1000 + number,
        )
        for number in range(rounds)
    )
    made = new_record(make_trial(**values), run="one", network=FACTS, processes=processes)
    return made.but(status="ok", settings={"device": "cpu", "threads": 2, "layout": "nhwc"})


def test_the_rate_is_all_images_over_all_seconds() -> None:
    assert cell_of(a_record()).images_per_second == pytest.approx(20 / (0.1 * 1.01))


def compared_pairs(records: list[Record]) -> list[Pair]:
    return compare_cells([cell_of(record) for record in records])


def printed(records: list[Record], certificates: Any = None) -> str:
    out = io.StringIO()
    cells = [cell_of(record) for record in records]
    Screen(out).bench(cells, compare_cells(cells, certificates))
    return out.getvalue()


def test_the_price_of_keras_has_a_line_of_its_own() -> None:
    proofs = tuple(
        EngineProof(engine=engine, version="", passed=True) for engine in ("jax", "keras/jax")
    )
    certificate = Certificate(
        network="trivial", form="", digest="", parameters=1, condition=0,
        engines=proofs, created="",
    )  # fmt: skip
    certificates = {("trivial", Manner()): certificate}
    native, keras = a_record(0.1, engine="jax"), a_record(0.125, engine="keras/jax")
    for pair in ([native, keras], [keras, native]):
        text = printed(pair, certificates)
        assert "the price of Keras on jax (fp32, batch 20): +25.0 % [+25.0, +25.0] time" in text
    assert "price" not in printed([native, keras])


def test_conditions_that_differ_are_named() -> None:
    one, other = a_record(precision="fp32"), a_record(precision="bf16")
    assert "conditions that differ" not in printed([one, other])
    other = other.but(settings={**(other.settings or {}), "layout": "nchw"})
    assert "conditions that differ, layout: nhwc: fp32; nchw: bf16" in printed([one, other])


def test_share_of_peak_counts_training_as_three_forwards() -> None:
    train, infer = cell_of(a_record()), cell_of(a_record(mode="infer"))
    assert train.images_per_second is not None
    assert train.flops == pytest.approx(3 * 2 * 1e6 * train.images_per_second)
    assert train.flops == pytest.approx(3 * (infer.flops or 0))
    assert train.share_of_peak == pytest.approx((train.flops or 0) / 6e9)


def test_contaminated_blocks_are_left_out_and_said() -> None:
    record = a_record()
    dirty = Block(seconds=100.0, steps=2, foreign_share=0.9)
    first = record.processes[0].model_copy(update={"blocks": (*record.processes[0].blocks, dirty)})
    spoilt = cell_of(record.but(processes=(first, *record.processes[1:])))
    assert spoilt.images_per_second == pytest.approx(cell_of(record).images_per_second)
    assert any("1 of 13 blocks" in warning for warning in spoilt.warnings)


def test_one_process_alone_is_warned_about() -> None:
    assert any("only one process" in w for w in cell_of(a_record(rounds=1)).warnings)
    assert not cell_of(a_record()).warnings


def test_cells_that_differ_in_one_thing_are_compared_and_others_are_not() -> None:
    records = [
        a_record(0.1, precision="fp32"),
        a_record(0.05, precision="bf16"),
        a_record(0.1, precision="fp32", batch=40),
        a_record(0.1, precision="fp32", engine="reference"),
    ]
    cells = [cell_of(record) for record in records]
    compared = {
        (cells.index(pair.a), cells.index(pair.b)): pair.found for pair in compare_cells(cells)
    }
    assert list(compared) == [(0, 1), (0, 2), (0, 3)]
    assert compared[0, 1].ratio is not None
    assert compared[0, 3].ratio is None
    assert "no certificate" in compared[0, 3].reason


def test_engines_are_compared_once_both_have_passed_their_certificate() -> None:
    records = [a_record(0.1, engine="torch"), a_record(0.05, engine="jax")]

    def compared(jax_passed: bool) -> Comparison:
        proofs = (
            EngineProof(engine="torch", passed=True),
            EngineProof(engine="jax", passed=jax_passed, reason="" if jax_passed else "padding"),
        )
        certificate = Certificate(
            network="trivial", form="", digest="", parameters=0, condition=0.0, engines=proofs,
            created="",
        )  # fmt: skip
        (pair,) = compare_cells(
            [cell_of(record) for record in records], {("trivial", Manner()): certificate}
        )
        return pair.found

    assert compared(True).ratio == pytest.approx(0.5)
    assert compared(False).ratio is None
    assert "jax failed its certificate: padding" in compared(False).reason


def test_a_comparison_reads_as_a_sentence() -> None:
    records = [a_record(0.1, precision="fp32"), a_record(0.05, precision="bf16")]
    (pair,) = compared_pairs(records)
    assert pair.sentence.startswith(
        "fp32 is slower than bf16 (trivial, train, batch 20): 0.500 times"
    )


def test_cells_of_different_runs_are_compared_unpaired_and_called_so() -> None:
    one, other = a_record(0.1, precision="fp32"), a_record(0.05, precision="bf16")
    late = tuple(p.model_copy(update={"round": p.round + 3}) for p in other.processes)
    jobs = [one.but(run="job 1"), other.but(run="job 2", processes=late)]
    paired, found = (compared_pairs(group)[0].found for group in ([one, other], jobs))
    assert found.ratio == pytest.approx(0.5)
    assert (found.low or 0) < (paired.low or 0), "rounds that drift alike no longer cancel"
    assert "(unpaired)" in printed(jobs)
    assert "unpaired: measured in different runs" in printed(jobs)
    assert "unpaired" not in printed([one, other])
    told = [
        bench_document([cell_of(r) for r in group], compared_pairs(group), [], Path())
        for group in ([one, other], jobs)
    ]
    assert [document["comparisons"][0]["paired"] for document in told] == [True, False]


def test_a_first_step_that_took_no_longer_than_others_is_no_word_worth() -> None:
    def first_step(seconds: float) -> str:
        record = a_record(0.1)
        started = tuple(
            p.model_copy(update={"first_step_seconds": seconds}) for p in record.processes
        )
        return printed([record.but(processes=started)])

    assert "first step 1.90 s longer than a step" in first_step(2.0)
    assert "longer than a step" not in first_step(0.05)


def test_json_has_no_nan() -> None:
    assert to_json({"a": float("nan"), "b": [float("inf"), 1.5]}).split() == [
        "{", '"a":', "null,", '"b":', "[", "null,", "1.5", "]", "}",
    ]  # fmt: skip


@pytest.mark.parametrize("evil", ["=1+1", "+cmd", "-2", "@x", 'a,b"c\nd', "<script>"])
def test_csv_survives_evil_text_and_is_no_formula(evil: str) -> None:
    file = io.StringIO()
    write_csv([cell_of(a_record(rounds=0).but(status="failed", reason=evil))], file)
    (line,) = csv.DictReader(io.StringIO(file.getvalue()))
    assert line["reason"].removeprefix("'") == evil
    assert not line["reason"].startswith(("=", "+", "-", "@"))


def test_terminal_markup_in_a_reason_is_printed_not_obeyed() -> None:
    file = io.StringIO()
    failed = a_record(rounds=0).but(status="failed", reason="[red]boom[/red] [link=x]")
    Screen(file).bench([cell_of(failed)], [])
    assert "[red]boom[/red] [link=x]" in file.getvalue()


def test_numbers_as_people_write_them() -> None:
    assert gmac(4_089_184_256) == "4.09 GMAC (8.18 GFLOP)"
    assert quantity(25_557_032) == "25.6 M"
    assert quantity(0, "B") == "0 B"
    assert rate(None) == "-"
    assert rate(12345.6) == "12346"
    assert span(0.00163) == "1.63 ms"
    assert span(75) == "75.0 s"
    assert percent(0.384) == "38 %"
    assert percent(0.012) == "1.2 %"
    assert noun(1, "process", "processes") == "1 process"
