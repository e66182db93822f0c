"""What a report says in files: charts, Markdown, CSV, JSON, Bencher's."""

import csv
import importlib.resources
import io
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from crews import crew_record
from made_up import a_machine, failed, made, store_of

from convdyno.report.bench_json import to_json
from convdyno.report.cell import cell_of
from convdyno.report.cells import gather
from convdyno.report.charts import Figure
from convdyno.report.csv import COLUMNS, OLDER, write_csv
from convdyno.report.figures import figures
from convdyno.report.markdown import markdown
from convdyno.report.page import SECTIONS, page
from convdyno.report.report_json import bencher, report_document
from convdyno.report.report_model import ReportModel, make_report
from convdyno.store.folder import stored_certificates
from convdyno.store.record import Record

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
EVIL = "<b>&`*|_[x](y)\n# no"


def content_of(folder: Path, *records: Record) -> ReportModel:
    found = gather([store_of(folder, *records)])
    return make_report(found, stored_certificates(found.stores))


def page_of(report: ReportModel) -> str:
    """Without the script that draws charts, which takes seconds to make."""
    return page(report, figures(report), "all", lambda: "")


def every_kind() -> list[Record]:
    scaling = [
        crew_record(0.1, network="resnet50", engine="torch"),
        crew_record(0.12, network="resnet50", engine="torch", devices=2),
        crew_record(0.1, network="resnet50", engine="torch", devices=2, exchange="independent"),
    ]
    rungs = {"device": 0.1, "host": 0.104, "source": 0.18}
    return [
        *(made(rate, engine=engine, precision=precision, batch=batch)
            for engine, rate in (("torch", 60.0), ("jax", 72.0))
            for precision in ("fp32", "bf16") for batch in (8, 32)),
        *(one.but(run="s", machine=a_machine()) for one in scaling),
        *(made(32 / s, run="l", data="photos", rung=rung) for rung, s in rungs.items()),
        made(10, network="vgg16"), failed(EVIL, batch=512),
        made(9, network="vgg16", run="before", created="2026-11-15T04:00:00.000+00:00"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> ReportModel:
    return content_of(tmp_path_factory.mktemp("results"), *every_kind())


def vega_lite() -> Any:
    schema = importlib.resources.files("altair.vegalite.v6.schema") / "vega-lite-schema.json"
    return jsonschema.Draft7Validator(json.loads(schema.read_text("utf-8")))


def shown(content: ReportModel, **traffic: Any) -> list[Figure]:
    return figures(content, lambda trial, digest: 10_000_000)


def test_every_chart_is_sound_vega_lite_for_the_page_and_for_files(content: ReportModel) -> None:
    validator, found = vega_lite(), shown(content)
    assert {figure.section for figure in found} == SECTIONS.keys() - {"accuracy"}
    for figure in found:
        for spec in (figure.to_page(), figure.to_file()):
            wrong = jsonschema.exceptions.best_match(validator.iter_errors(spec))
            assert wrong is None, f"{figure.name}: {wrong.message[:300]}"


def test_charts_have_names_of_their_own_and_scaling_the_older_tool_s(content: ReportModel) -> None:
    names = [figure.name for figure in shown(content)]
    assert len(set(names)) == len(names)
    assert {"resnet50_b20", "resnet50_throughput", "resnet50_ratios", "roofline"} <= {*names}


def test_values_of_charts_say_which_cells_they_are_of(content: ReportModel) -> None:
    for figure in shown(content):
        owners = [value for value in figure.values if "cell" in value]
        assert owners, figure.name
        for value in owners:
            assert content.cells[value["cell"]].headline is not None


def test_one_question_of_each_engine_comes_before_the_same_with_another_batch(
    content: ReportModel,
) -> None:
    (family,) = [f for f in content.families if f.network == "resnet50"]
    asked = [(pair.axis, *pair.values, pair.a.trial.engine) for pair in family.pairs]
    assert ("precision", "bf16", "fp32", "jax") in asked
    assert ("engine", "jax", "torch", "jax") in asked


def test_without_known_traffic_the_share_of_the_peak_is_shown(content: ReportModel) -> None:
    (peak,) = [figure for figure in figures(content) if figure.section == "roofline"]
    assert peak.name == "peak"


def jobs(**more: Any) -> list[Record]:
    """Each number of devices on a node of its own."""
    return [
        crew_record(seconds, devices=devices, slurm="GPU/k80").but(
            run=f"job {devices}", machine=a_machine(f"node{devices}", cores_usable=devices, **more)
        )
        for devices, seconds in ((1, 0.1), (2, 0.125), (4, 0.16))
    ]


def test_jobs_of_slurm_make_one_curve_that_says_so(tmp_path: Path) -> None:
    found = content_of(tmp_path, *jobs())
    (curve,) = found.curves
    assert curve.baseline is not None
    shares = [point.gain and point.gain.efficiency.share for point in curve.points]
    assert shares == pytest.approx([0.8, 0.625], rel=0.03)
    for text in (page_of(found), markdown(found, "all")):
        assert "measured in different runs" in text


def test_unlike_machines_have_curves_of_their_own(tmp_path: Path) -> None:
    one, two, four = jobs()
    found = content_of(tmp_path, one, two, four.but(machine=a_machine("node4", cpu="Xeon")))
    assert sorted(curve.baseline is not None for curve in found.curves) == [False, True]


def test_a_run_that_has_a_whole_curve_is_mixed_with_no_other(tmp_path: Path) -> None:
    whole = [crew_record(0.1), crew_record(0.125, devices=2)]
    later = crew_record(0.2, devices=2).but(run="later", created="2100-01-01T00:00:00.000+00:00")
    records = [one.but(run="whole", machine=a_machine()) for one in whole]
    (curve,) = content_of(tmp_path, *records, later.but(machine=a_machine())).curves
    assert curve.baseline is not None
    assert {point.cell.run for point in (curve.baseline, *curve.points)} == {"whole"}


def test_sweeps_of_one_machine_make_one_curve(tmp_path: Path) -> None:
    parts = [
        crew_record(0.1 * devices**0.3, devices=devices).but(run=str(devices), machine=a_machine())
        for devices in (1, 2, 4)
    ]
    (curve,) = content_of(tmp_path, *parts).curves
    assert [point.trial.devices for point in curve.points] == [2, 4]
    assert curve.baseline is not None


def test_a_file_may_have_any_name_and_a_record_counts_once(tmp_path: Path) -> None:
    records = [crew_record(0.1), crew_record(0.125, devices=2)]
    all_of_them = store_of(tmp_path / "all", *(one.but(machine=a_machine()) for one in records))
    for number, path in enumerate(sorted(all_of_them.glob("*.json"))):
        path.rename(all_of_them / f"renamed {number}.json")
    again = store_of(tmp_path / "node1", records[0])
    found = gather([all_of_them, again])
    assert [cell.file and cell.file.parent.name for cell in found.cells] == ["all", "all"]
    assert len(make_report(found, {}).curves) == 1


def test_several_devices_without_a_curve_are_among_the_others(tmp_path: Path) -> None:
    alone = [crew_record(0.1, batch=10), crew_record(0.1, devices=2)]
    found = content_of(tmp_path, *(one.but(machine=a_machine()) for one in alone))
    cells = {
        found.cells[value["cell"]].trial.devices
        for figure in figures(found)
        if figure.section == "throughput"
        for value in figure.values
        if "cell" in value
    }
    assert cells == {1, 2}


def test_every_record_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = every_kind()
    folder = store_of(tmp_path, *records)
    read: list[bytes] = []
    plain = Record.model_validate_json

    def counted(text: bytes) -> Record:
        read.append(text)
        return plain(text)

    monkeypatch.setattr(Record, "model_validate_json", counted)
    found = gather([folder])
    report = make_report(found, stored_certificates(found.stores))
    assert report.curves and report.ladders
    page_of(report)
    markdown(report, "all")
    report_document(report)
    write_csv(found.cells, io.StringIO())
    assert len(read) == len(records)


def test_an_empty_section_is_left_out(tmp_path: Path) -> None:
    alone = content_of(tmp_path, made(10))
    text = page_of(alone)
    headings = re.findall("<section[^>]*><h2>(.*?)</h2>", text)
    absent = {"ratios", "history", "scaling", "ladder", "accuracy"}
    charts = [heading for name, (heading, _) in SECTIONS.items() if name not in absent]
    assert headings == ["Cells", *charts, "Machines and versions", "To repeat a cell"]


def test_counts_are_in_good_english(tmp_path: Path) -> None:
    tiles = "<li><b>{}</b><span>{}</span></li>"
    alone, two = (
        content_of(tmp_path / "1", made(10)),
        content_of(tmp_path / "2", made(), made(run="b")),
    )
    for one in ("cell measured", "network", "engine", "machine"):
        assert tiles.format(1, one) in page_of(alone)
    assert tiles.format(2, "cells measured") in page_of(two)


def test_a_page_of_failures_alone_is_a_page(tmp_path: Path) -> None:
    none = content_of(tmp_path, failed("no memory"))
    text = page_of(none)
    assert "no memory" in text
    assert "What is faster" not in text


def page_data_of(report: ReportModel) -> Any:
    """What the page's script reads."""
    (found,) = re.findall('<script id="data"[^>]*>(.*?)</script>', page_of(report))
    return json.loads(found)


def test_the_page_calls_a_cell_that_was_always_disturbed_so(tmp_path: Path) -> None:
    record = made(40_000)
    dirty = tuple(
        process.but(blocks=tuple(block.but(foreign_share=0.9) for block in process.blocks))
        for process in record.processes
    )
    cells = page_data_of(content_of(tmp_path, record.but(processes=dirty)))["cells"]
    assert cells["status"] == ["disturbed"]


def test_the_page_writes_long_numbers_with_commas_and_vague_ones_as_such(tmp_path: Path) -> None:
    found = content_of(tmp_path, made(40_000), made(30, batch=8, noise=1.5, rounds=2))
    cells = page_data_of(found)["cells"]
    known, vague = cells["between_told"]
    assert re.fullmatch(r"\d\d,\d{3} to \d\d,\d{3}", known)
    assert vague == "hardly known" or "give or take a factor" in vague


def test_warnings_that_differ_in_numbers_alone_are_one(tmp_path: Path) -> None:
    def spoilt(blocks: int, **more: Any) -> Record:
        record = made(50, **more)
        first = record.processes[0]
        dirty = [block.but(foreign_share=0.9) for block in first.blocks[:blocks]]
        first = first.but(blocks=(*dirty, *first.blocks[blocks:]))
        return record.but(processes=(first, *record.processes[1:]))

    found = content_of(tmp_path, spoilt(1), spoilt(3, batch=8), made(50, batch=16))
    (warning,) = re.findall('<ul class="minds">(.*?)</ul>', page_of(found))
    assert warning.count("<li>") == 1
    assert "3 of 32 blocks were disturbed" in warning and "(the worst of them)" in warning
    assert "batch 8; resnet50 torch train fp32 batch 32" in warning
    assert re.search(r"3 of 32 blocks .* \(2 cells\)", markdown(found, "all"))


def test_markdown_shows_what_records_say_and_obeys_nothing(content: ReportModel) -> None:
    text = markdown(content, "All")
    assert r"\<b\>&amp;\`\*\|\_\[x\](y) \# no" in text
    widths = {line.count("|") - line.count(r"\|") for line in text.splitlines() if line[:1] == "|"}
    assert all(
        len({line.replace(r"\|", "").count("|") for line in table}) == 1 for table in _tables(text)
    ), widths
    for heading in ("Cells", "What is faster", "Where the time goes", "What to mind"):
        assert f"## {heading}" in text
    assert "convdyno bench resnet50 --engine jax --batch 8" in text


def _tables(text: str) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def test_the_document_keeps_to_its_schema(content: ReportModel) -> None:
    found = json.loads(to_json(report_document(content)))
    jsonschema.validate(found, json.loads((SCHEMAS / "report.json").read_text()))
    (curve,) = found["scaling"]
    cells = found["cells"]
    assert [cells[point["cell"]]["trial"]["devices"] for point in curve["points"]] == [2, 2]
    assert cells[curve["baseline"]]["trial"]["devices"] == 1
    (ladder,) = found["ladders"]
    assert [cells[i]["trial"]["rung"] for i in ladder["cells"]] == ["device", "host", "source"]
    one = found["comparisons"][0]
    assert cells[one["a"]]["trial"]["network"] == cells[one["b"]]["trial"]["network"]


def test_bencher_reads_rates_with_their_intervals(content: ReportModel) -> None:
    found = json.loads(to_json(bencher(content.latest)))
    jsonschema.validate(found, json.loads((SCHEMAS / "bencher.json").read_text()))
    one = found["vgg16 torch train fp32 batch 32"]["throughput"]
    assert one["lower_value"] < one["value"] < one["upper_value"]
    assert one["value"] == pytest.approx(10, rel=0.05)
    step = found["vgg16 torch train fp32 batch 32"]["latency"]
    assert step["value"] == pytest.approx(32 / one["value"] * 1e9)
    assert step["lower_value"] < step["value"] < step["upper_value"]


@pytest.mark.parametrize(
    "other",
    [{"host": "two"}, {"seed": 1}, {"cores": 1}, {"scaling": "strong"}, {"devices": 2, "hosts": 2},
        {"optimiser": {"momentum": 0.8}}],
    ids=str,
)  # fmt: skip
def test_bencher_has_every_cell_under_a_name_of_its_own(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    alike = {"devices": other.get("devices", 1)}
    found = bencher(content_of(tmp_path, made(10, **alike), made(20, **alike | other)).latest)
    rates = sorted(cell["throughput"]["value"] for cell in found.values())
    assert rates == pytest.approx([10, 20], rel=0.05)


def test_a_later_failure_takes_no_measured_cell_from_charts(tmp_path: Path) -> None:
    lost = failed("no memory", created="2026-11-17T04:00:00.000+00:00")
    found = content_of(tmp_path, made(10), lost)
    assert [cell.status for cell in found.latest] == ["ok"]
    assert found.newest == {lost.id}, "the table says how it stands now"
    assert "throughput" in {figure.section for figure in figures(found)}
    assert len(bencher(found.latest)) == 1


def test_the_csv_has_its_documented_columns_and_no_formula() -> None:
    file = io.StringIO()
    labels = {"gpu": "k80", "sum": "=1+1"}
    record = made(10, labels=labels).but(command="=cmd()", run="+1")
    write_csv([cell_of(record)], file)
    (line,) = csv.DictReader(io.StringIO(file.getvalue()))
    assert list(line) == [*COLUMNS, *OLDER]
    assert line["labels"] == "gpu=k80; sum==1+1"
    assert (line["command"], line["run"]) == ("'=cmd()", "'+1")
    assert (line["host"], line["machine"]) == ("one", "AMD EPYC, 2 cores")
    page = (SCHEMAS.parent / "report.md").read_text()
    assert all(f"`{name}`" in page for name in (*COLUMNS, *OLDER)), "every column is documented"


def test_a_cell_is_repeated_by_its_own_command(tmp_path: Path) -> None:
    found = content_of(tmp_path, made(10, precision="bf16", layout="nhwc", image_size=(64, 64)))
    assert found.cells[0].repeated_by == (
        "convdyno bench resnet50 --engine torch --batch 32 --precision bf16 --layout nhwc "
        "--image-size 64x64 --optimiser sgd --rate 0.001"
    )
    far = content_of(tmp_path / "far", made(10, devices=2, hosts=2))
    assert far.cells[0].repeated_by == "convdyno bench resnet50 --engine torch,jax"
