"""Figures that are hardly known: few words, and no axis stretched."""

from pathlib import Path
from typing import Any

import pytest
from made_up import made, store_of

from convdyno.report.cells import gather
from convdyno.report.charts import Figure, side_by_side
from convdyno.report.figures import figures
from convdyno.report.report_model import make_report
from convdyno.report.uncertain import clipped, frame, known, thousands
from convdyno.store.folder import stored_certificates
from convdyno.store.record import Record

HOPELESS = {"noise": 1.2, "rounds": 2}
"""A cell of which nobody can say how fast it is."""


def charts_of(folder: Path, *records: Record) -> dict[str, Figure]:
    found = gather([store_of(folder, *records)])
    report = make_report(found, stored_certificates(found.stores))
    return {figure.section: figure for figure in figures(report)}


def axis_of(figure: Figure, *names: str) -> list[float]:
    return [value[name] for value in figure.values for name in names if name in value]


def test_a_figure_that_is_known_has_its_interval_and_one_that_is_not_a_factor() -> None:
    assert known(10.0, (9.5, 10.5)) == "10.0 [9.50, 10.5]"
    assert known(1234567.0, (1.2e6, 1.3e6)) == "1,234,567 [1,200,000, 1,300,000]"
    assert known(10.0, (2.0, 50.0)) == "10.0, give or take a factor of 5"
    assert known(10.0, (2.0, 1234.0)) == "10.0, give or take a factor of 123"
    assert known(10.0, (1e-9, 1e12)) == "10.0, hardly known"
    assert known(10.0, (None, None)) == "10.0"


def test_commas_are_for_long_whole_numbers_alone() -> None:
    assert thousands("1658925 to 9999, 0.123456") == "1,658,925 to 9999, 0.123456"


def test_an_interval_is_cut_at_the_frame_and_says_so() -> None:
    shown = frame([0.0, 10.0, 20.0], [(9.0, 11.0), (1e-9, 1e12)], 0.4)
    assert shown == pytest.approx((0.0, 28.0))
    assert clipped((1e-9, 1e12), shown) == {"low": 1e-9, "high": 28.0, "above": 28.0}
    assert clipped((9.0, 11.0), shown) == {"low": 9.0, "high": 11.0}
    assert clipped((None, None), shown) == {}


def test_intervals_of_points_that_agree_are_shown_whole() -> None:
    assert frame([10.0, 10.0], [(9.0, 11.0), (9.5, 10.5)]) == pytest.approx((9.0, 11.0))


def test_series_stand_side_by_side_without_leaving_their_places() -> None:
    moved = side_by_side([0.0, 1.0, 2.0], 4)
    assert moved == sorted(moved)
    assert sum(moved) == pytest.approx(0.0)
    assert moved[-1] - moved[0] <= 0.3
    assert side_by_side([1.0], 2) == [0.0, 0.0]


@pytest.mark.parametrize(
    "cells",
    [
        {"precision": "bf16"},
        {"precision": "bf16", "layout": "nhwc"},
    ],
)
def test_no_axis_is_stretched_by_a_cell_that_is_hardly_known(
    tmp_path: Path, cells: dict[str, Any]
) -> None:
    found = charts_of(tmp_path, made(50), made(80, **cells), made(60, layout="nchw", **HOPELESS))
    assert max(axis_of(found["throughput"], "rate", "low", "high", "above")) < 250
    assert "above" in str(found["throughput"].values)
    assert found["throughput"].notes == ("an arrow: it goes on beyond the frame",)
    ratios = axis_of(found["ratios"], "at", "low", "high", "below", "above")
    assert max(ratios) / min(ratios) < 5


def test_layers_without_values_are_left_out_and_the_axis_stays(tmp_path: Path) -> None:
    figure = charts_of(tmp_path, made(50), made(9, layout="nchw", **HOPELESS))["ratios"]
    assert axis_of(figure, "at") == [], "the only ratio is beyond the frame"
    for layers in (figure.to_page()["layer"], figure.to_file()["layer"]):
        assert len(layers) < len(figure.spec["layer"])
        titles = {layer["encoding"].get("x", {}).get("title") for layer in layers}
        assert "Ratio of images/s, with its interval" in titles


def test_the_frame_of_ratios_holds_the_band_of_what_is_equivalent(tmp_path: Path) -> None:
    figure = charts_of(tmp_path, made(50), made(80, precision="bf16"))["ratios"]
    (domain,) = {
        tuple(layer["encoding"]["x"]["scale"]["domain"])
        for layer in figure.spec["layer"]
        if "scale" in layer["encoding"].get("x", {})
    }
    assert domain[0] <= 1 / 1.01 and domain[1] >= 1.01


def test_a_block_that_is_far_off_is_an_arrow_at_the_edge(tmp_path: Path) -> None:
    record = made(70)
    first = record.processes[0]
    slow = first.blocks[-1].but(seconds=6 * first.blocks[-1].seconds)
    first = first.but(blocks=(*first.blocks[:-1], slow))
    figure = charts_of(tmp_path, record.but(processes=(first, *record.processes[1:])))["blocks"]
    assert [value["off"] < -80 for value in figure.values if "below" in value] == [True]
    assert figure.notes == ("1 block is beyond the frame: arrows",)


def test_blocks_of_a_process_that_was_always_disturbed_are_drawn_as_disturbed(
    tmp_path: Path,
) -> None:
    record = made(70)
    dirty = tuple(
        process.but(blocks=tuple(block.but(foreign_share=0.9) for block in process.blocks))
        for process in record.processes
    )
    figure = charts_of(tmp_path, record.but(processes=dirty))["blocks"]
    assert {value["kind"] for value in figure.values if "off" in value} == {"disturbed"}


def test_one_process_alone_has_no_interval_in_a_chart(tmp_path: Path) -> None:
    (value,) = charts_of(tmp_path, made(70, rounds=1))["throughput"].values
    assert "low" not in value
    assert value["told"].endswith("(1 process)")
