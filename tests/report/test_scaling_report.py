"""What is told about more devices: tables, sentences, documents, files and the picture."""

import io
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from crews import cells, crew_record

from convdyno.report.bench_json import bench_document, to_json
from convdyno.report.cell import Cell
from convdyno.report.columns import cell_data
from convdyno.report.comparisons import compare_cells
from convdyno.report.console import Screen
from convdyno.report.csv import write_csv
from convdyno.report.format import percent, ranges
from convdyno.report.scaling import Curve, curves
from convdyno.report.scaling_files import write_curves
from convdyno.store.record import Record

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "bench.json"


def weak(**more: Any) -> list[Record]:
    """One, two and four devices; steps take 0.1, 0.125 and 0.16 seconds."""
    return [
        crew_record(0.1, **more),
        crew_record(0.125, devices=2, **more),
        crew_record(0.16, devices=4, hosts=2, **more),
    ]


def only_curve(*records: Record) -> Curve:
    (curve,) = curves(cells(*records))
    return curve


def printed(shown: list[Cell]) -> str:
    out = io.StringIO()
    Screen(out).bench(shown, compare_cells(shown), curves=curves(shown))
    return out.getvalue()


def test_rates_are_of_all_devices_and_efficiency_is_against_one() -> None:
    two, four = only_curve(*weak()).points
    assert two.rate == pytest.approx(2 * 20 / 0.125, rel=0.02)
    assert [p.gain and p.gain.efficiency.share for p in (two, four)] == pytest.approx(
        [0.8, 0.625], rel=0.02
    )
    assert four.ideal == pytest.approx(4 * 20 / 0.1, rel=0.02)
    shown = four.to_table()
    assert (shown["batch"], shown["global batch"], shown["hosts"]) == (20, 80, 2)
    told = [float(shown[name]) for name in ("images/s", "per host", "per device")]
    assert told == pytest.approx([four.rate, four.rate / 2, four.rate / 4], rel=0.01)


def test_strong_scaling_is_against_one_device_with_the_whole_batch() -> None:
    whole = crew_record(0.1, batch=40, scaling="strong")
    curve = only_curve(
        whole,
        crew_record(0.1, batch=20, scaling="strong"),
        crew_record(0.0625, batch=20, devices=2, scaling="strong"),
        crew_record(0.04, batch=10, devices=4, scaling="strong"),
    )
    assert curve.baseline is not None and curve.baseline.cell.id == whole.id
    assert [p.trial.global_batch for p in curve.points] == [40, 40]
    assert [p.gain and p.gain.efficiency.share for p in curve.points] == pytest.approx(
        [0.8, 0.625], rel=0.02
    )
    assert curve.scaling == "strong scaling: 40 images on all devices together"


def test_what_means_nothing_to_one_device_does_not_part_it_from_its_curve() -> None:
    squeezed = crew_record(0.12, devices=2, compress="bf16")
    records = [*weak(), squeezed]
    plain, packed = curves(cells(*records))
    assert packed.baseline is not None and plain.baseline is not None
    assert packed.baseline.cell.id == plain.baseline.cell.id == records[0].id


@pytest.mark.parametrize("other", [{"precision": "bf16"}, {"batch": 10}, {"cores": 2}])
def test_one_device_that_did_something_else_is_no_baseline(other: dict[str, Any]) -> None:
    curve = only_curve(crew_record(0.1, **other), crew_record(0.1, devices=2))
    assert curve.baseline is None
    (point,) = curve.points
    assert point.gain is None and point.ideal is None
    assert "have 1 among the --devices" in " ".join(curve.sentences())


def test_one_device_alone_has_no_curve() -> None:
    assert curves(cells(crew_record(0.1))) == []


def test_a_failed_cell_has_no_point() -> None:
    one, two, four = weak()
    lost = four.but(status="failed", reason="rank 3 on n2 was lost", processes=())
    assert [point.trial.devices for point in only_curve(one, two, lost).points] == [2]


def test_engines_have_curves_of_their_own() -> None:
    text = printed(cells(*weak(engine="torch"), *weak(engine="jax")))
    assert "torch, weak scaling: 20 images on each device" in text
    assert "jax, weak scaling: 20 images on each device" in text


def test_the_exchange_is_judged_by_the_same_ranks_without_one() -> None:
    text = printed(cells(*weak(), crew_record(0.1, devices=4, hosts=2, exchange="independent")))
    assert re.search(
        r"4 devices on 2 hosts: communication-bound: 3[78] % \[3\d, 3\d\] of each step is exchange "
        "of gradients",
        text,
    )
    assert "2 devices: " not in text, "these were not measured without exchange"


def test_an_exchange_that_costs_nothing_is_no_limit() -> None:
    curve = only_curve(
        crew_record(0.1),
        crew_record(0.101, devices=2),
        crew_record(0.1, devices=2, exchange="independent"),
    )
    assert any("2 devices: compute-bound: exchange" in text for text in curve.sentences())


def test_compressed_gradients_are_judged_by_the_same_independent_cell() -> None:
    found = curves(
        cells(
            crew_record(0.2, devices=2),
            crew_record(0.15, devices=2, compress="bf16"),
            crew_record(0.1, devices=2, exchange="independent"),
        )
    )
    shares = [p.communication and p.communication.share.share for c in found for p in c.points]
    assert shares == [pytest.approx(0.5, abs=0.02), None, pytest.approx(0.333, abs=0.02)]


def test_a_straggler_is_named_with_its_host() -> None:
    text = printed(
        cells(
            crew_record(0.1),
            crew_record(0.14, devices=4, hosts=4),
            crew_record([0.1, 0.1, 0.118, 0.1], devices=4, hosts=4, exchange="independent"),
        )
    )
    assert re.search(r"rank 2 on n3 is 15 % \[1\d, 1\d\] slower than the others", text)
    assert "waiting for rank 2 on n3" in text
    assert re.search(r"images/s of each rank: 0 on n1 \d+, .* 2 on n3 1[67]\d, 3 on n4 \d+", text)


def test_a_slow_rank_alone_does_not_make_the_exchange_the_limit() -> None:
    curve = only_curve(
        crew_record(0.1),
        crew_record(0.151, devices=2),
        crew_record([0.1, 0.15], devices=2, exchange="independent"),
    )
    found = curve.points[0].communication
    assert found is not None and found.waiting is not None
    assert found.limit == "compute"
    assert found.share.share > 0.15 > found.waiting.share - 0.1
    assert any("slower than the other" in text for text in curve.sentences())


def test_ranks_that_wait_for_each_other_accuse_nobody() -> None:
    record = crew_record([0.1, 0.1, 0.13, 0.1], devices=4)
    curve = only_curve(crew_record(0.1), record)
    assert [rank.standing for rank in curve.points[0].ranks] == [None] * 4
    (hint,) = curve.sentences()
    assert "--exchange default,independent" in hint


def test_inference_waits_for_nobody() -> None:
    curve = only_curve(
        crew_record(0.1, mode="infer"), crew_record([0.1, 0.1, 0.13], devices=3, mode="infer")
    )
    assert [rank.straggles for rank in curve.points[0].ranks] == [False, False, True]


def test_devices_that_share_a_machine_are_told() -> None:
    curve = only_curve(crew_record(0.1), crew_record(0.13, devices=2, exchange="independent"))
    assert any(
        re.search(r"7\d % \[7\d, 7\d\] of the ideal even without", text)
        for text in curve.sentences()
    )


def test_many_ranks_are_told_by_their_range() -> None:
    record = crew_record([0.1] * 9 + [0.2], devices=10, exchange="independent")
    *_, last = only_curve(crew_record(0.1), record).sentences()
    assert re.search(r"from \d+\.?\d* \(rank 9 on n1\) to \d+ \(rank \d on n1\), median \d+$", last)


def test_one_round_has_an_efficiency_without_an_interval() -> None:
    curve = only_curve(*(crew_record(0.1, rounds=1, devices=n) for n in (1, 2)))
    assert re.fullmatch(r"\d+ %", curve.points[0].to_table()["efficiency"])


def test_ranks_without_times_are_left_out() -> None:
    record = crew_record(0.1, devices=2, exchange="independent")
    blind = tuple(p.model_copy(update={"ranks": p.ranks[:1]}) for p in record.processes)
    cut = tuple(
        p.model_copy(update={"ranks": tuple(r.model_copy(update={"seconds": ()}) for r in p.ranks)})
        for p in record.processes
    )
    for processes in (blind, cut, ()):
        found = curves(cells(crew_record(0.1), record.but(processes=processes)))
        for curve in found:
            assert not any(rank.straggles for point in curve.points for rank in point.ranks)


def test_device_counts_and_missing_exchange_are_no_rivals() -> None:
    records = [
        *weak(),
        crew_record(0.1, devices=2, exchange="independent"),
        crew_record(0.1, devices=2, exchange="horovod"),
        crew_record(0.1, devices=2, precision="bf16"),
        crew_record(0.1, scaling="strong"),
        crew_record(0.1, devices=2, hosts=2),
    ]
    shown = cells(*records)
    compared = [(shown.index(pair.a), shown.index(pair.b)) for pair in compare_cells(shown)]
    assert compared == [(1, 4), (1, 5), (1, 7)]


def test_a_comparison_says_how_many_devices_both_had() -> None:
    shown = cells(crew_record(0.1, devices=2), crew_record(0.05, devices=2, precision="bf16"))
    assert "fp32 is slower than bf16 (trivial, train, batch 20, 2 devices)" in printed(shown)


def test_rows_show_both_batches_and_no_word_about_memory() -> None:
    shown = cells(*weak())
    assert [cell_data(cell)["global_batch"] for cell in shown] == [20, 40, 80]
    text = printed(shown)
    assert "global batch" in text
    assert "memory did not hold" not in text
    (plain,) = cells(crew_record(0.1, cores=None))
    assert any("memory did not hold" in warning for warning in plain.warnings)


def test_the_document_keeps_to_its_schema() -> None:
    shown = cells(
        *weak(),
        crew_record([0.1, 0.1, 0.12, 0.1], devices=4, hosts=2, exchange="independent"),
        crew_record(0.1, devices=2, precision="bf16", rounds=1),
    )
    document = json.loads(to_json(bench_document(shown, [], [], Path("out"), curves(shown))))
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    first, second = document["scaling"]
    assert (first["baseline"], second["baseline"]) == (0, None)
    assert [point["cell"] for point in first["points"]] == [1, 2, 3]
    explained = first["points"][1]
    assert explained["communication"]["independent"] == 3
    assert explained["images_per_second_per_host"] == explained["images_per_second"] / 2
    assert [rank["of_others"]["straggles"] for rank in first["points"][2]["ranks"]] == [
        False, False, True, False,
    ]  # fmt: skip
    assert first["sentences"]


def test_the_older_tools_files_and_the_picture(tmp_path: Path) -> None:
    records = [
        *weak(network="mine:<b>&", engine="torch"),
        crew_record(0.1, devices=4, exchange="independent", network="mine:<b>&", engine="torch"),
    ]
    files = write_curves([only_curve(*records)], tmp_path / "new")
    names = [path.name.partition("torch-")[2][8:] for path in files]
    assert names == [
        ".csv", ".csv.ideal", "-independent.csv", "-independent.csv.ideal", ".svg",
    ]  # fmt: skip
    assert all(path.name.startswith("scaling-mine-b-torch-") for path in files)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(
        path.name for path in files
    )
    head, *lines = files[0].read_text().splitlines()
    assert head == "gpus,images_per_sec"
    assert [line.split(",")[0] for line in lines] == ["1", "2", "4"]
    rates = [float(line.split(",")[1]) for line in lines]
    assert rates == pytest.approx([200, 320, 500], rel=0.02)
    ideal = [float(line.split(",")[1]) for line in files[1].read_text().splitlines()[1:]]
    assert ideal == [rates[0], 2 * rates[0], 4 * rates[0]]
    efficiencies = {percent(rate / best) for rate, best in zip(rates, ideal, strict=True)} - {
        "100 %"
    }
    texts = [node.text for node in ElementTree.parse(files[-1]).iter() if node.tag[-4:] == "text"]
    assert {"mine:<b>&, training, fp32", "Images/s", "ideal", "torch, no exchange"} <= {*texts}
    assert {"Number of devices (1 CPU core each)", *efficiencies} <= {*texts}
    assert write_curves([only_curve(*records)], tmp_path / "new") == files, "written again"


def test_a_curve_without_baseline_is_drawn_without_ideal(tmp_path: Path) -> None:
    table, picture = write_curves([only_curve(crew_record(0.1, devices=2, rounds=1))], tmp_path)
    assert table.read_text().count("\n") == 2
    assert "ideal" not in picture.read_text()


def test_gpus_are_called_so(tmp_path: Path) -> None:
    record = crew_record(0.1, devices=2, cores=None)
    record = record.but(settings={"device": "cuda", "device_name": "Tesla P100"})
    *_, picture = write_curves([only_curve(record)], tmp_path)
    assert "Number of GPUs" in picture.read_text()
    out = io.StringIO()
    write_csv(cells(record), out)
    head, line = (text.split(",") for text in out.getvalue().splitlines())
    values = dict(zip(head, line, strict=True))
    assert (values["num_gpu"], values["devices"], values["global_batch"]) == ("2", "2", "40")


def test_a_record_in_full_says_where_each_rank_was() -> None:
    record = crew_record(0.1, devices=2, hosts=2)
    first = record.processes[0]
    granted = first.ranks[1].model_copy(
        update={"visible": "0,1", "allocated": "gpu:2", "clock_skew_seconds": -0.0031}
    )
    record = record.but(processes=(first.model_copy(update={"ranks": (first.ranks[0], granted)}),))
    out = io.StringIO()
    Screen(out).record(record, cells(record)[0])
    assert "rank 0 on n1: device cpu, 1 core (0)\n" in out.getvalue()
    assert "visible 0,1, allocated gpu:2, clock -3 ms" in out.getvalue()


def test_numbers_in_stretches() -> None:
    assert ranges([3, 0, 1, 2, 8]) == "0-3, 8"
    assert ranges([5]) == "5"
    assert ranges([]) == ""
