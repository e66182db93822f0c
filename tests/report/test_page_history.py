"""The runs of one cell over time."""

import json
from pathlib import Path
from typing import Any

import pytest
from made_up import failed, made, store_of

from convdyno.report.cells import gather
from convdyno.report.charts import Figure
from convdyno.report.figures import figures
from convdyno.report.history import MOST_CHARTS, MOST_RUNS, MOST_SERIES, Series
from convdyno.report.markdown import markdown
from convdyno.report.page import page
from convdyno.report.report_json import report_document
from convdyno.report.report_model import ReportModel, make_report
from convdyno.store.record import Record

EVIL = "</script><img src=x onerror=alert(1)>`*|"


def on(day: int, rate: float = 100.0, **more: Any) -> Record:
    """A run of a day in November."""
    created = f"2026-11-{day:02d}T04:00:00.000+00:00"
    return made(rate, run=f"day {day}", created=created, **more)


def report_of(folder: Path, *records: Record) -> ReportModel:
    return make_report(gather([store_of(folder, *records)]), {})


def series_of(report: ReportModel) -> list[Series]:
    return [one for past in report.histories for one in past.series]


def charts_of(report: ReportModel) -> list[Figure]:
    return [figure for figure in figures(report) if figure.section == "history"]


def test_runs_of_a_trial_are_a_series_the_oldest_first(tmp_path: Path) -> None:
    (one,) = series_of(report_of(tmp_path, on(5, 120), on(3, 100), on(4, 110)))
    assert [cell.created[8:10] for cell in one.cells] == ["03", "04", "05"]
    assert one.change.ratio == pytest.approx(120 / 110, rel=0.02)
    assert one.row["runs"] == "3"
    assert one.row["last"].endswith("on 2026-11-05")


def test_what_was_measured_once_has_no_history(tmp_path: Path) -> None:
    report = report_of(tmp_path, on(3), on(4, precision="bf16"), failed(batch=512))
    assert report.histories == [] and charts_of(report) == []
    assert "History" not in page(report, figures(report), "all", lambda: "")
    assert "## History" not in markdown(report, "all")


def test_neither_failures_nor_sides_of_a_gate_nor_rungs_are_runs(tmp_path: Path) -> None:
    lost = failed("no memory", created="2026-11-09T04:00:00.000+00:00")
    rungs = [on(day, data="photos", rung="device") for day in (3, 4)]
    sides = [on(day, role="base", batch=8) for day in (3, 4)]
    assert series_of(report_of(tmp_path, on(3), lost, *rungs, *sides)) == []


def test_different_machines_are_different_series_and_named(tmp_path: Path) -> None:
    records = [on(day, host=host) for host in ("one", "two") for day in (3, 4)]
    found = series_of(report_of(tmp_path, *records, on(4, host="three")))
    assert [one.label for one in found] == ["torch on one", "torch on two"]


def test_a_clear_change_has_a_verdict_and_says_that_it_is_unpaired(tmp_path: Path) -> None:
    report = report_of(tmp_path, on(3, 100), on(4, 50))
    (one,) = series_of(report)
    assert one.row["verdict"] == "slower"
    assert one.row["change"].startswith("-49.9 % [-5")
    text = page(report, figures(report), "all", lambda: "")
    assert "1 cell was measured before; it is slower now: resnet50 train, torch" in text
    assert "unpaired, at another time" in text
    assert "a change may come from the machine" in text
    assert "a change may come from the machine" in markdown(report, "all")


def test_a_run_beside_other_work_is_no_change_and_is_hollow(tmp_path: Path) -> None:
    busy = on(4, 50)
    dirty = tuple(
        process.but(blocks=tuple(block.but(foreign_share=0.9) for block in process.blocks))
        for process in busy.processes
    )
    report = report_of(tmp_path, on(3, 100), busy.but(processes=dirty))
    (one,) = series_of(report)
    assert one.row["verdict"] == "slower; disturbed"
    assert (
        "1 of them beside other work all the time; no change since then is shown"
        in (report_document(report)["conclusion"][-1])
    )
    (figure,) = charts_of(report)
    assert [value["disturbed"] for value in figure.values if "rate" in value] == [False, True]
    assert any(note.startswith("a hollow point") for note in figure.notes)


def test_a_change_that_is_not_shown_is_not_claimed(tmp_path: Path) -> None:
    report = report_of(tmp_path, on(3, 100), on(4, 101))
    assert "no change since then is shown" in page(report, [], "all", lambda: "")


def test_changes_of_versions_are_marked_and_told(tmp_path: Path) -> None:
    versions = [("0.1.0", "2.1"), ("0.1.0", "2.2"), ("0.2.0", "2.2")]
    records = [
        on(day, versions={"torch": torch}, convdyno=ours)
        for day, (ours, torch) in enumerate(versions, 3)
    ]
    (figure,) = charts_of(report_of(tmp_path, *records))
    marks = [value["words"] for value in figure.values if "changed" in value]
    assert marks == ["torch 2.1 to 2.2", "convdyno 0.1.0 to 0.2.0"]
    assert "torch 2.1 to 2.2 (2026-11-04)" in figure.notes[0]


def test_a_point_knows_its_versions_its_machine_and_its_date(tmp_path: Path) -> None:
    (figure,) = charts_of(report_of(tmp_path, on(3), on(4)))
    point = next(value for value in figure.values if "rate" in value)
    assert "torch 1.2.3" in point["versions"] and "convdyno " in point["versions"]
    assert point["machine"] == "one: AMD EPYC, 2 cores"
    assert point["day"] == "2026-11-03 04:00"
    assert point["low"] < point["rate"] < point["high"]


def test_modes_and_networks_have_charts_of_their_own(tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [{}, {"mode": "infer"}, {"network": "vgg16"}]
    report = report_of(tmp_path, *(on(day, **way) for way in ways for day in (3, 4)))
    titles = {figure.title for figure in charts_of(report)}
    assert titles == {"resnet50, training", "resnet50, inference", "vgg16, training"}
    assert len({figure.name for figure in charts_of(report)}) == 3


def test_it_is_bounded_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    hours = [
        made(
            100, rounds=2, run=str(n), created=f"2026-{n // 28 + 1:02d}-{n % 28 + 1:02d}T04:00:00Z"
        )
        for n in range(MOST_RUNS + 3)
    ]
    others = [on(day, rounds=2, batch=b + 1) for b in range(MOST_SERIES + 1) for day in (3, 4)]
    report = report_of(tmp_path, *hours, *others)
    (past,) = report.histories
    assert (len(past.series), past.left_out) == (MOST_SERIES, 2)
    alone = report_of(tmp_path / "alone", *hours)
    (one,) = series_of(alone)
    assert (len(one.cells), one.left_out) == (MOST_RUNS, 3)
    assert one.cells[-1].created == max(record.created for record in hours)
    assert "3 older runs are left out" in charts_of(alone)[0].notes


def test_there_are_only_so_many_charts(tmp_path: Path) -> None:
    networks = [f"mine:n{number}" for number in range(MOST_CHARTS + 2)]
    report = report_of(
        tmp_path, *(on(day, rounds=2, network=name) for name in networks for day in (3, 4))
    )
    assert (len(report.histories), report.histories_left_out) == (MOST_CHARTS, 2)
    text = page(report, figures(report), "all", lambda: "")
    assert "2 networks with older runs left out" in text


def test_a_date_that_is_none_takes_no_report_down(tmp_path: Path) -> None:
    records = [on(3), on(4), on(5).but(created=EVIL), on(6).but(created="9999-99-99")]
    (one,) = series_of(report_of(tmp_path, *records))
    assert len(one.cells) == 2


def test_hostile_versions_and_hosts_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    records = [
        on(day, host=host, versions={"torch": f"{day}{EVIL}"})
        for host in ("one", EVIL)
        for day in (3, 4)
    ]
    report = report_of(tmp_path, *records)
    text = page(report, figures(report), "all", lambda: "")
    assert "<img" not in text
    assert text.count("</script>") == 3
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert "<img" not in markdown(report, "all").replace("\\<img", "")


def test_one_process_alone_and_a_hopeless_run_stretch_no_axis(tmp_path: Path) -> None:
    (figure,) = charts_of(
        report_of(tmp_path, on(3), on(4, rounds=1), on(5, noise=1.5, rounds=2), on(6))
    )
    ends = [value[end] for value in figure.values for end in ("low", "high") if end in value]
    assert min(ends) >= 0 and max(ends) < 500
    alone = [value for value in figure.values if value.get("told", "").endswith("(1 process)")]
    assert len(alone) == 1 and "low" not in alone[0]


def test_runs_are_in_the_document_for_machines(tmp_path: Path) -> None:
    found = report_document(report_of(tmp_path, on(4, 110), on(3)))
    (one,) = json.loads(json.dumps(found["history"]))
    assert [found["cells"][place]["created"][8:10] for place in one["cells"]] == ["03", "04"]
    assert one["change"]["ratio"] == pytest.approx(1.1, rel=0.02)
    assert found["conclusion"][-1].startswith("1 cell was measured before")


def test_records_of_0_1_0_have_a_history_too(tmp_path: Path) -> None:
    kept = Path(__file__).parents[1] / "records-0.1.0" / "results"
    old = [Record.model_validate_json(path.read_text()) for path in kept.glob("*.json")]
    first = next(one for one in old if one.processes and one.status == "ok" and not one.role)
    assert first.schema_version == 1
    again = first.but(id=f"20990101{first.id[8:]}", created="2099-01-01T00:00:00.000+00:00", run="")
    (one,) = series_of(report_of(tmp_path, first, again))
    assert one.change.ratio == pytest.approx(1.0)
