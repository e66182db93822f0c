"""`convdyno report`: files, and what is said where there are none."""

from pathlib import Path
from typing import Any

import pytest
from made_up import made, store_of


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return store_of(tmp_path / "results", made(100), made(125, engine="jax"))


def test_all_files_at_once(convdyno: Any, results: Path, tmp_path: Path) -> None:
    (results / "half.json").write_text("{")
    names = {
        "--html": "new/page.html", "--csv": "new/all.csv", "--markdown": "new/page.md",
        "--bencher": "new/bencher.json", "--svg": "pictures", "--png": "pictures",
    }  # fmt: skip
    done = convdyno("report", str(results), *(word for pair in names.items() for word in pair))
    assert done.code == 0, done.err
    assert "skipped: " in done.err
    assert "half.json is not a record" in done.err
    for name in list(names.values())[:4]:
        assert (tmp_path / name).stat().st_size > 100
        assert name in done.out
    pictures = {path.suffix for path in (tmp_path / "pictures").iterdir()}
    assert pictures == {".svg", ".png"}
    assert (tmp_path / "pictures" / "resnet50_ratios.svg").read_text().startswith("<svg")
    assert (tmp_path / "pictures" / "resnet50_ratios.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "new" / "all.csv").read_text().count("\n") == 3
    assert not list(tmp_path.rglob("*.part"))


def test_without_options_it_is_the_page(convdyno: Any, results: Path, tmp_path: Path) -> None:
    assert convdyno("report").out == "written: report.html\n"
    assert "What is faster" in (tmp_path / "report.html").read_text()


def test_conditions_choose_records(convdyno: Any, results: Path) -> None:
    found = convdyno("report", "--json", "--where", "engine=jax").json
    assert [cell["trial"]["engine"] for cell in found["cells"]] == ["jax"]
    wrong = convdyno("report", "--where", "engine=jaxx")
    assert wrong.code == 2
    assert "Did you mean 'jax'" in wrong.err


def test_nothing_to_report_is_said(convdyno: Any, tmp_path: Path) -> None:
    assert "there is no results folder" in convdyno("report", "nowhere").err
    (tmp_path / "empty").mkdir()
    done = convdyno("report", "empty")
    assert (done.code, done.out) == (4, "")
    assert "there is nothing to report in empty" in done.err
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "words",
    [("report", "nowhere", "--csv"), ("report", "--where", "engine=none", "--csv"),
        ("results", "csv", "--out", "nowhere", "--to")],
    ids=" ".join,
)  # fmt: skip
def test_a_table_stays_where_there_is_no_other_to_write(
    convdyno: Any, results: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "all.csv").write_text("precious")
    assert convdyno(*words, "all.csv").code == 2
    assert (tmp_path / "all.csv").read_text() == "precious"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("words", [("report", "--csv"), ("results", "csv", "--to")], ids=" ".join)
def test_a_dash_is_standard_output(
    convdyno: Any, results: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = convdyno(*words, "-")
    assert done.out.startswith("id,created,")
    assert done.out.count("\n") == 3
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("words", [("report", "--csv"), ("results", "csv", "--to")], ids=" ".join)
def test_a_full_disk_is_said_and_a_pipe_is_written(
    convdyno_process: Any, results: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    full = convdyno_process(*words, "/dev/full")
    assert (full.code, full.err.count("\n")) == (2, 1)
    assert "'/dev/full' cannot be written: No space left on device" in full.err
    assert convdyno_process(*words, "/dev/stdout").out.startswith("id,created,")
    (tmp_path / "link.csv").symlink_to("all.csv")
    assert convdyno_process(*words, "link.csv").code == 0
    assert (tmp_path / "all.csv").read_text().startswith("id,created,")
    assert (tmp_path / "link.csv").is_symlink()


@pytest.mark.parametrize("option", ["--html", "--csv", "--markdown", "--bencher", "--svg"])
def test_a_file_that_cannot_be_written_is_named(
    convdyno: Any, results: Path, tmp_path: Path, option: str
) -> None:
    (tmp_path / "file").write_text("")
    done = convdyno("report", option, "file/page")
    assert done.code == 2
    assert "cannot be written" in done.err
    assert "Traceback" not in done.err
