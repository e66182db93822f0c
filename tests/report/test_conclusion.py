"""What a report comes to, in the sentences that stand first."""

from pathlib import Path
from typing import Any

import pytest
from made_up import failed, made, store_of

from convdyno.report.cells import gather
from convdyno.report.conclusion import MOST, conclusion
from convdyno.report.markdown import markdown
from convdyno.report.page import page
from convdyno.report.report_model import ReportModel, make_report
from convdyno.store.folder import stored_certificates
from convdyno.store.record import Record

LATER = "2026-11-17T04:00:00.000+00:00"


def report_of(folder: Path, *records: Record) -> ReportModel:
    found = gather([store_of(folder, *records)])
    return make_report(found, stored_certificates(found.stores))


def test_one_comparison_is_told_with_its_interval_the_faster_first(tmp_path: Path) -> None:
    told, counts = conclusion(report_of(tmp_path, made(100), made(190, precision="bf16")))
    assert told.startswith("bf16 is faster than fp32 (resnet50 training, torch, batch 32): 1.9")
    assert told.endswith("] times the images/s.")
    assert counts == "1 comparison: it found a difference."


def test_the_same_question_with_other_batches_is_one_sentence(tmp_path: Path) -> None:
    cells = [
        made(rate * batch, batch=batch, precision=precision)
        for batch in (8, 16, 32)
        for precision, rate in (("fp32", 1.0), ("bf16", 1.9))
    ]
    told, counts = conclusion(report_of(tmp_path, *cells))
    assert told.startswith("bf16 is faster than fp32 in all 3 comparisons (resnet50 training): 1.")
    assert counts == "3 comparisons: all found a difference."


def test_answers_that_disagree_are_counted(tmp_path: Path) -> None:
    cells = [
        made(rate, batch=batch, precision=precision)
        for batch, rates in ((8, (100, 150)), (16, (100, 180)), (32, (120, 100)))
        for precision, rate in zip(("fp32", "bf16"), rates, strict=True)
    ]
    told, _ = conclusion(report_of(tmp_path, *cells))
    assert "bf16 is faster than fp32 in 2 of 3 comparisons" in told
    assert told.endswith(", slower in 1.")


def test_what_is_equal_and_what_is_open_is_said_so(tmp_path: Path) -> None:
    same = conclusion(
        report_of(tmp_path / "same", made(100, noise=1e-5), made(100, noise=1e-5, layout="nchw"))
    )
    assert "are equally fast (resnet50 training, torch, fp32, batch 32)" in same[0]
    assert same[1] == "1 comparison: it found none beyond 1 %."
    vague = report_of(tmp_path / "open", made(100), made(102, layout="nchw", noise=0.3))
    told, counts = conclusion(vague)
    assert "cannot be told apart yet" in told
    assert counts == "1 comparison: it cannot be decided yet."


def test_where_nothing_is_decided_it_says_so(tmp_path: Path) -> None:
    vague = [made(100, noise=0.3, layout=way) for way in ("auto", "nchw", "nhwc")]
    assert conclusion(report_of(tmp_path, *vague))[-1] == "3 comparisons: none can be decided yet."


def test_verdicts_of_several_kinds_are_counted_apart(tmp_path: Path) -> None:
    cells = made(100), made(190, precision="bf16"), made(101, layout="nchw", noise=0.3, rounds=3)
    assert conclusion(report_of(tmp_path, *cells))[-1] == (
        "2 comparisons: 1 found a difference and 1 cannot be decided yet."
    )


def test_what_could_not_be_compared_is_counted_too(tmp_path: Path) -> None:
    cells = made(100), made(190, precision="bf16"), made(50, engine="tensorflow")
    assert conclusion(report_of(tmp_path, *cells))[-1] == (
        "1 comparison: it found a difference; 1 other could not be made."
    )


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([made(100)], "resnet50 trains at 9"),
        ([made(100), made(50, network="vgg16")], "2 cells: "),
        ([failed()], "Nothing was measured."),
    ],
)
def test_without_comparisons_it_says_what_was_measured(
    tmp_path: Path, records: list[Record], told: str
) -> None:
    (found,) = conclusion(report_of(tmp_path, *records))
    assert found.startswith(told)


def test_cells_of_different_runs_are_called_unpaired(tmp_path: Path) -> None:
    later = made(190, precision="bf16", run="r2", created=LATER)
    assert conclusion(report_of(tmp_path, made(100), later))[0].endswith("; unpaired.")


def many(**more: Any) -> list[Record]:
    networks = ("alexnet", "resnet50", "vgg11", "vgg16", "vgg19", "overfeat")
    return [
        made(rate, network=network, precision=precision, **more)
        for network in networks
        for precision, rate in (("fp32", 100.0), ("bf16", 190.0))
    ]


def test_it_is_never_longer_than_five_sentences(tmp_path: Path) -> None:
    records = [*many(), *many(run="r2", created=LATER)]
    told = conclusion(report_of(tmp_path, *records))
    assert len(told) <= MOST == 5
    assert told[0].startswith(
        "bf16 is faster than fp32 in all 6 comparisons (6 networks, training): 1.8"
    ), "what many networks have in common is one sentence"
    assert told[-2] == "6 comparisons: all found a difference."
    assert told[-1].startswith("12 cells were measured before; ")
    axes = [{"layout": "nchw"}, {"compile": "on"}, {"threads": 1}, {"feed": "fit"}, {"seed": 1}]
    other = [made(50 + 9 * n, **axis) for n, axis in enumerate(axes)]
    assert len(conclusion(report_of(tmp_path / "axes", made(100), *other))) <= MOST


def test_one_decided_question_among_many_is_told_by_its_network(tmp_path: Path) -> None:
    vague = [
        made(100, network=network, layout=way, noise=0.3)
        for network in ("alexnet", "vgg11", "vgg16", "vgg19", "overfeat")
        for way in ("nchw", "nhwc")
    ]
    told = conclusion(report_of(tmp_path, made(100), made(190, layout="nchw"), *vague))
    assert told[0].startswith("layout nchw is faster than layout auto (resnet50 training, torch")
    assert len(told) == MOST


def test_it_stands_before_everything_else(tmp_path: Path) -> None:
    report = report_of(tmp_path, made(100), made(190, precision="bf16"))
    sentence = conclusion(report)[0]
    text = page(report, [], "all", lambda: "")
    assert text.index(sentence) < text.index('class="tiles"') < text.index('id="cells"')
    document = markdown(report, "all")
    assert document.index("- bf16 is faster than fp32") < document.index("## Cells")


def test_hostile_names_in_it_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    evil = "mine:<img src=x onerror=alert(1)>"
    cells = [made(rate, network=evil, precision=p) for p, rate in (("fp32", 1.0), ("bf16", 2.0))]
    report = report_of(tmp_path, *cells)
    assert evil in conclusion(report)[0]
    assert "<img" not in page(report, [], "all", lambda: "")
    assert "<img" not in markdown(report, "all").replace("\\<img", "").partition("## To repeat")[0]
