"""`convdyno compare` over stored records."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from made_up import made, store_of

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "compare.json"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    cells = [
        made(100), made(125, engine="jax"), made(180, precision="bf16"),
        made(240, engine="jax", precision="bf16", run="r2"),
    ]  # fmt: skip
    return store_of(tmp_path / "results", *cells)


def test_a_table_with_ratios_verdicts_and_how_they_were_made(convdyno: Any, results: Path) -> None:
    done = convdyno("compare", str(results), "--by", "engine")
    assert done.code == 0, done.err
    assert "resnet50, train, one: AMD EPYC, 2 cores" in done.out
    assert "jax / torch" in done.out
    assert "faster" in done.out
    assert "unpaired: measured in different runs" in done.out


def test_the_document_keeps_to_its_schema(convdyno: Any, results: Path) -> None:
    words = ("compare", str(results), "--by", "engine", "--where", "network=resnet50")
    document = convdyno(*words, "--where", "precision=fp32", "--json").json
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    (one,) = document["comparisons"]
    assert (one["verdict"], one["paired"]) == ("faster", True)
    assert document["cells"][one["a"]]["trial"]["engine"] == "jax"


@pytest.mark.parametrize(
    ("words", "code", "answer"),
    [
        (["--by", "engne"], 2, "Did you mean 'engine'"),
        (["--where", "network=resnt50"], 2, "Did you mean 'resnet50'"),
        (["--where", "netwrk=resnet50"], 2, "Did you mean 'network'"),
        (["--against", "jx"], 2, "Did you mean 'jax'"),
        (["--by", "layout"], 4, "no two cells differ in layout alone; there is: auto"),
    ],
)
def test_what_cannot_be_compared_is_said(
    convdyno: Any, results: Path, words: list[str], code: int, answer: str
) -> None:
    done = convdyno("compare", str(results), *words)
    assert (done.code, done.out.strip()) == (code, "")
    assert answer in done.err


def test_a_folder_that_is_not_there_or_empty(convdyno: Any, tmp_path: Path) -> None:
    assert "there is no results folder" in convdyno("compare", "nowhere").err
    (tmp_path / "empty").mkdir()
    done = convdyno("compare", "empty")
    assert done.code == 4
    assert "no record was measured" in done.err
