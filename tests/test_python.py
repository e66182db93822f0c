"""convdyno from Python: results that show themselves, rows for data frames, exceptions."""

import dataclasses
import inspect
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pytest

import convdyno
from convdyno import api
from convdyno.store.folder import Store
from convdyno.trial.axes import AXES

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from options import FILE, NOT_HERE, text

FAST: dict[str, Any] = {"engine": "clockwork", "budget": "60s", "within": "20%"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("python") / "results"


@pytest.fixture(scope="module")
def result(folder: Path) -> convdyno.Result:
    labels = {"gpu": "<b>k80</b>"}
    return convdyno.bench("trivial", batch=[1, 2], out=folder, labels=labels, **FAST)


class Cells(HTMLParser):
    """The text of a table's cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_benchmark_has_rows_records_and_dicts(result: convdyno.Result, folder: Path) -> None:
    assert (len(result), result.ok) == (2, True)
    assert [row.trial.batch for row in result.rows] == [1, 2]
    assert result.rows[1].images_per_second == pytest.approx(1000, rel=0.1)
    assert [one["label.gpu"] for one in result.to_dicts()] == ["<b>k80</b>"] * 2
    assert {r.id for r in result.records} == {r.id for r in Store(folder).records()}
    (compared,) = result.compared
    assert compared[2].verdict == "slower"


def test_it_prints_as_the_command_does(result: convdyno.Result) -> None:
    text = str(result)
    assert "engine     precision  batch" in text
    assert "95 % interval" in text
    assert "batch 1 is slower than batch 2" in text
    assert repr(result) == text


def test_it_shows_itself_in_a_notebook_and_escapes(
    result: convdyno.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Cells(result._repr_html_())
    assert page.tags.count("tr") == 3
    assert "clockwork" in page.texts
    bad = result.records[0].but(status="failed", reason="<script>alert(1)</script>", processes=())
    page = Cells(convdyno.Result([bad])._repr_html_())
    assert "script" not in page.tags
    assert any(text.endswith("failed: <script>alert(1)</script>") for text in page.texts)


def test_its_records_say_what_repeats_it(result: convdyno.Result, tmp_path: Path) -> None:
    import shlex

    words = shlex.split(result.records[0].command)
    assert words[:3] == ["convdyno", "bench", "trivial"]
    done = subprocess.run(
        [sys.executable, "-m", *words, "--budget", "1s"], cwd=tmp_path, capture_output=True
    )
    assert b"no such option" not in done.stderr.lower()
    assert done.returncode in (0, 4)


def test_a_trial_that_fails_is_a_result(folder: Path) -> None:
    failing = convdyno.bench(
        "trivial", device="fail=crash;at=9", out=folder.parent / "failed", **FAST
    )
    assert not failing.ok
    assert failing.rows[0].status == "failed"
    assert "SIGSEGV" in str(failing)
    assert failing.to_dicts()[0]["images_per_second"] is None


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"network": "resnt50"}, convdyno.errors.UnknownName, "Did you mean 'resnet50'"),
        ({"engine": "troch"}, convdyno.errors.UnknownName, "Did you mean 'torch'"),
        ({"bacth": 3}, convdyno.errors.UnknownName, "Did you mean 'batch'"),
        ({"batch": 0}, convdyno.errors.UsageError, "--batch must be a whole number"),
        ({"batch": []}, convdyno.errors.UsageError, "empty list"),
        ({"rounds": 0}, convdyno.errors.UsageError, "rounds must be a whole number"),
        ({"rounds": 1.5}, convdyno.errors.UsageError, "rounds must be a whole number"),
        ({"latency": "yes"}, convdyno.errors.UsageError, "latency is True or False"),
        ({"budget": "soon"}, convdyno.errors.UsageError, "--budget is a time"),
        ({"slurm": "partition=GPU"}, convdyno.errors.UsageError, "for the command line"),
        ({"labels": {"a b": "c"}}, convdyno.errors.UsageError, "a label is NAME=VALUE"),
        ({"out": "/proc/none"}, convdyno.errors.BadStore, "cannot be written"),
    ],
)
def test_a_problem_is_an_exception_with_a_sentence(
    options: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    values = {"network": "trivial", "out": tmp_path} | FAST | options
    with pytest.raises(error, match=said.replace("(", r"\(")):
        convdyno.bench(**values)


def test_values_may_be_given_as_python_has_them(tmp_path: Path) -> None:
    result = convdyno.bench(
        ["trivial"], engine=("clockwork",), image_size=(32, 16), width=1.0, latency=True,
        budget=30, within=0.2, rounds=1, out=str(tmp_path), threads=None, compile=True,
    )  # fmt: skip
    trial = result.records[0].trial
    assert (trial.image_size, trial.width, trial.latency) == ((32, 16), 1.0, True)
    assert trial.compile == "on"


def test_a_folder_is_loaded_as_flat_rows(result: convdyno.Result, folder: Path) -> None:
    table = convdyno.load(folder)
    assert sorted(one["batch"] for one in table) == [1, 2]
    plain = (str, int, float, bool, type(None))
    assert all(isinstance(value, plain) for one in table for value in one.values())
    assert table.columns["batch"] == [one["batch"] for one in table]
    assert sorted(table, key=lambda one: one["batch"]) == result.to_dicts()
    assert [one["batch"] for one in convdyno.load(folder, where="batch=2")] == [2]
    assert len(convdyno.load(folder, where=["batch!=2", "label.gpu=<b>k80</b>"])) == 1
    with pytest.raises(convdyno.errors.UnknownName, match="Did you mean 'batch'"):
        convdyno.load(folder, where="bacth=2")
    with pytest.raises(convdyno.errors.BadStore, match="no results folder"):
        convdyno.load(folder / "none")


def test_what_was_measured_is_compared_and_reported(
    result: convdyno.Result, folder: Path, tmp_path: Path
) -> None:
    found = convdyno.compare(folder, by="batch")
    assert found.to_pandas()["verdict"].tolist() == ["slower"]
    assert "slower" in str(found)
    assert Cells(found._repr_html_()).tags.count("tr") == 2
    written = api.report(folder, html=tmp_path / "page.html")
    assert str(written) == f"written: {tmp_path / 'page.html'}"
    assert sorted(written.to_pandas()["batch"]) == [1, 2]
    assert convdyno.load(folder).to_pandas().shape == result.to_pandas().shape


def test_a_sweep_and_a_gate_are_results_too(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text('network = "trivial"\nengine = "clockwork"\nwithin = "any"\nrounds = 1\n')
    swept = convdyno.sweep(file, out=tmp_path / "swept")
    assert swept.ok
    assert swept.to_dicts()[0]["standing"] == "done"
    gated = convdyno.gate(
        "trivial", engine="clockwork", base_set="layout=nchw", within="90%", floor=False, rounds=2,
        out=str(tmp_path / "gated"),
    )  # fmt: skip
    assert gated.to_dicts()[0]["verdict"] == gated.verdict
    with pytest.raises(convdyno.errors.UnknownName, match="Did you mean 'engine'"):
        convdyno.certify("trivial", egnine="torch")


FUNCTIONS = ("bench", "certify", "compare", "evaluate", "gate", "report", "sweep", "train", "tune")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_option_is_an_argument_with_a_type(name: str) -> None:
    shown = inspect.signature(getattr(api, name)).parameters
    assert not [one for one in shown.values() if one.kind is one.VAR_KEYWORD]
    assert all(one.annotation is not one.empty for one in shown.values())
    options = {one.name for one in dataclasses.fields(getattr(api, f"{name.title()}Request"))}
    command = "eval" if name == "evaluate" else name
    if "axes" in options:
        options |= {axis.name for axis in AXES if axis.in_command(command)}
    assert options - shown.keys() <= {*NOT_HERE}


def test_the_options_that_are_written_down_are_those_of_today() -> None:
    assert FILE.read_text() == text(), "python tools/options.py --write"


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("bench", {"network": 5}, "--network is a name or a list of names"),
    ("bench", {"network": None}, "which network"),
    ("bench", {"network": []}, "a name or a list of names"),
    ("bench", {"network": "trivial", "batch": 1.5}, "--batch must be a whole number"),
    ("bench", {"network": "trivial", "batch": [8, 8]}, "--batch has 8 twice"),
    ("bench", {"network": "trivial", "batch": {}}, "batch is an empty list"),
    ("bench", {"network": "trivial", "engine": 3}, "no engine is called '3'"),
    ("bench", {"network": "trivial", "precision": b"fp32"}, "precision"),
    ("bench", {"network": "trivial", "auxiliary": 1}, "auxiliary is True or False"),
    ("bench", {"network": "trivial", "out": 5}, "--out is the path of a file or folder"),
    ("bench", {"network": "trivial", "labels": ["gpu=k80"]}, "--label is names and values"),
    ("bench", {"network": "trivial", "budget": [3]}, "--budget is a word or a number"),
    ("bench", {"network": "trivial", "budget": True}, "--budget is a word or a number"),
    ("bench", {"network": "trivial", "rounds": "many"}, "--rounds must be a whole number"),
    ("bench", {"network": "trivial", "watch": "yes"}, "--watch is True or False"),
    ("bench", {"network": "trivial", "device": "gpu"}, "--device is auto, cpu, cuda"),
    ("gate", {"network": "trivial"}, "what is the base"),
    ("gate", {"network": "trivial", "base_set": 3}, "--base-set is a list such as"),
    ("tune", {"network": ["trivial", "lenet"]}, "tune is for one network"),
    ("sweep", {"file": 5}, "--file is the path"),
    ("sweep", {"file": "nowhere.toml"}, "cannot be read"),
    ("train", {"network": "trivial"}, "which data"),
    ("train", {"network": "trivial", "data": "nowhere"}, "no file or folder"),
    ("train", {"network": "trivial", "data": "mnist", "seeds": 0}, "--seeds must be a whole"),
    ("evaluate", {"checkpoint": None}, "--checkpoint is the path"),
    ("evaluate", {"checkpoint": "nowhere"}, "cannot be read"),
    ("certify", {"network": "trivial", "accumulate": "x"}, "--accumulate must be a whole"),
    ("certify", {"network": "trivial", "engine": {}}, "--engine is a word or a number"),
    ("compare", {"results": 5}, "--results is a name or a list"),
    ("compare", {"results": "nowhere"}, "no results folder"),
    ("compare", {"where": 5}, "--where is a name or a list"),
    ("report", {"results": "nowhere"}, "no results folder"),
    ("report", {"html": 5}, "--html is the path"),
    ("load", {"folder": 5}, "--results is a name or a list"),
]


@pytest.mark.parametrize(("name", "options", "said"), WRONG, ids=str)
def test_whatever_is_wrong_is_one_kind_of_exception(
    name: str,
    options: dict[str, Any],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(convdyno.ConvdynoError, match=re.escape(said)):
        getattr(api, name)(**options)
    assert list(tmp_path.iterdir()) == []


def test_without_pandas_one_sentence_says_so(
    result: convdyno.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(convdyno.errors.NotInstalled, match="pip install pandas"):
        result.to_pandas()


def test_what_is_no_record_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text("{")
    with pytest.warns(UserWarning, match=r"half\.json"):
        table = convdyno.load(tmp_path)
    assert (table, len(table.skipped)) == ([], 1)


def test_pandas_takes_the_rows(result: convdyno.Result, folder: Path) -> None:
    frame = pandas.DataFrame(convdyno.load(folder))
    assert frame.sort_values("batch")["images_per_second"].is_monotonic_increasing
    assert list(frame.groupby("engine")["batch"].sum()) == [3]
    assert pandas.DataFrame(convdyno.load(folder).columns).equals(frame)


def test_polars_takes_the_rows(result: convdyno.Result, folder: Path) -> None:
    frame = polars.DataFrame(convdyno.load(folder), infer_schema_length=None)
    assert frame["batch"].sum() == 3
    assert polars.DataFrame(convdyno.load(folder).columns).shape == frame.shape


def test_duckdb_takes_a_frame_of_the_rows(result: convdyno.Result, folder: Path) -> None:
    frame = pandas.DataFrame(convdyno.load(folder))
    found = duckdb.sql("select engine, sum(batch) from frame group by engine").fetchall()
    assert frame is not None
    assert found == [("clockwork", 3)]


def test_what_there_is_can_be_listed_without_importing_it() -> None:
    code = (
        "import sys, convdyno\n"
        "assert {'bench', 'load', 'errors'} <= set(dir(convdyno))\n"
        "assert not hasattr(convdyno, 'bnech')\n"
        "assert not {'typer', 'pydantic', 'numpy', 'typing'} & sys.modules.keys()\n"
        "assert convdyno.errors.UsageError\n"
        "assert 'convdyno.api' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-S", "-c", code], check=True, env=_path())


def _path() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(convdyno.__file__).parents[1])}
