"""What is printed is derived from the blocks, once, and safely."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from convdyno.report.console import Screen, sentence
from convdyno.report.csv import write_csv
from convdyno.report.document import bench_document, compare_records, to_json
from convdyno.report.rows import row
from convdyno.report.words import gmac, noun, percent, quantity, rate, span
from convdyno.results.certificate import Certificate, EngineProof
from convdyno.results.record import Block, NetworkFacts, Peak, Process, Record, new_record
from convdyno.stats.compare import Comparison
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
    made = new_record(make_trial(**values), network=FACTS, processes=processes)
    return made.but(status="ok", settings={"device": "cpu", "threads": 2, "layout": "nhwc"})


def test_the_rate_is_all_images_over_all_seconds() -> None:
    assert row(a_record()).images_per_second == pytest.approx(20 / (0.1 * 1.01))


def printed(records: list[Record], certificates: Any = None) -> str:
    out = io.StringIO()
    Screen(out).bench([row(r) for r in records], compare_records(records, certificates))
    return out.getvalue()


def test_the_price_of_keras_has_a_line_of_its_own() -> None:
    proofs = tuple(
        EngineProof(engine=engine, version="", passed=True) for engine in ("jax", "keras/jax")
    )
    certificate = Certificate(
        network="trivial", form="", digest="", parameters=1, kernels="native", condition=0,
        engines=proofs, created="",
    )  # fmt: skip
    certificates = {("trivial", "native"): certificate}
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
    train, infer = row(a_record()), row(a_record(mode="infer"))
    assert train.images_per_second is not None
    assert train.flops == pytest.approx(3 * 2 * 1e6 * train.images_per_second)
    assert train.flops == pytest.approx(3 * (infer.flops or 0))
    assert train.share_of_peak == pytest.approx((train.flops or 0) / 6e9)


def test_contaminated_blocks_are_left_out_and_said() -> None:
    record = a_record()
    dirty = Block(seconds=100.0, steps=2, foreign_share=0.9)
    first = record.processes[0].model_copy(update={"blocks": (*record.processes[0].blocks, dirty)})
    spoilt = row(record.but(processes=(first, *record.processes[1:])))
    assert spoilt.images_per_second == pytest.approx(row(record).images_per_second)
    assert any("1 of 13 blocks" in warning for warning in spoilt.warnings)


def test_one_process_alone_is_warned_about() -> None:
    assert any("only one process" in w for w in row(a_record(rounds=1)).warnings)
    assert not row(a_record()).warnings


def test_cells_that_differ_in_one_thing_are_compared_and_others_are_not() -> None:
    records = [
        a_record(0.1, precision="fp32"),
        a_record(0.05, precision="bf16"),
        a_record(0.1, precision="fp32", batch=40),
        a_record(0.1, precision="fp32", engine="reference"),
    ]
    compared = {(a, b): found for a, b, found in compare_records(records)}
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
        ((_, _, found),) = compare_records(records, {("trivial", "native"): certificate})
        return found

    assert compared(True).ratio == pytest.approx(0.5)
    assert compared(False).ratio is None
    assert "jax failed its certificate: padding" in compared(False).reason


def test_a_comparison_reads_as_a_sentence() -> None:
    records = [a_record(0.1, precision="fp32"), a_record(0.05, precision="bf16")]
    ((a, b, found),) = compare_records(records)
    text = sentence(records[a].trial, records[b].trial, found)
    assert text.startswith("fp32 is slower than bf16 (trivial, train, batch 20): 0.500 times")


def test_cells_of_different_runs_are_compared_unpaired_and_called_so() -> None:
    one, other = a_record(0.1, precision="fp32"), a_record(0.05, precision="bf16")
    late = tuple(p.model_copy(update={"round": p.round + 3}) for p in other.processes)
    jobs = [one.but(run="job 1"), other.but(run="job 2", processes=late)]
    ((_, _, paired),) = compare_records([one, other])
    ((_, _, found),) = compare_records(jobs)
    assert found.ratio == pytest.approx(0.5)
    assert (found.low or 0) < (paired.low or 0), "rounds that drift alike no longer cancel"
    assert "(unpaired)" in printed(jobs)
    assert "unpaired: measured in different runs" in printed(jobs)
    assert "unpaired" not in printed([one, other])
    told = [
        bench_document([row(r) for r in pair], compare_records(pair), [], Path())["comparisons"]
        for pair in ([one, other], jobs)
    ]
    assert [comparison["paired"] for (comparison,) in told] == [True, False]


def test_json_has_no_nan() -> None:
    assert to_json({"a": float("nan"), "b": [float("inf"), 1.5]}).split() == [
        "{", '"a":', "null,", '"b":', "[", "null,", "1.5", "]", "}",
    ]  # fmt: skip


@pytest.mark.parametrize("evil", ["=1+1", "+cmd", "-2", "@x", 'a,b"c\nd', "<script>"])
def test_csv_survives_evil_text_and_is_no_formula(evil: str) -> None:
    file = io.StringIO()
    write_csv([row(a_record(rounds=0).but(status="failed", reason=evil))], file)
    (line,) = csv.DictReader(io.StringIO(file.getvalue()))
    assert line["reason"].removeprefix("'") == evil
    assert not line["reason"].startswith(("=", "+", "-", "@"))


def test_terminal_markup_in_a_reason_is_printed_not_obeyed() -> None:
    file = io.StringIO()
    failed = a_record(rounds=0).but(status="failed", reason="[red]boom[/red] [link=x]")
    Screen(file).bench([row(failed)], [])
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
