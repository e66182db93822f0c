"""The TOML and the Python that the docs show are understood too."""

import re
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pytest

import convdyno
from convdyno.app.sweep_plan import vocabulary
from convdyno.engines import registry
from convdyno.trial.sweep_file import parse_sweep

DOCS = Path(__file__).parents[1] / "docs"


def blocks(kind: str) -> list[object]:
    return [
        pytest.param(text, id=f"{page.name} {number}")
        for page in sorted(DOCS.glob("*.md"))
        for number, text in enumerate(
            re.findall(rf"```{kind}\n(.*?)```", page.read_text(), re.DOTALL), 1
        )
    ]


@pytest.mark.parametrize("text", blocks("toml"))
def test_a_shown_sweep_is_understood(text: str) -> None:
    sweep = parse_sweep(text, "docs", vocabulary())
    assert sweep.combinations()
    assert sweep.unused == []


@pytest.mark.parametrize("text", blocks("python"))
def test_shown_python_can_be_compiled(text: str) -> None:
    compile(text, "docs", "exec")


@pytest.mark.slow
def test_the_page_about_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its blocks one after the other, as in a notebook, with scripted times."""
    really: Any = convdyno.bench

    def small(network: str, **given: Any) -> Any:
        assert set(given.get("engine", ())) <= registry.engines().keys()
        quick = {"engine": "clockwork", "budget": "60s", "within": "50%", "rounds": 1}
        return really(network, **given | quick)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(convdyno, "bench", small)
    names: dict[str, Any] = {"pandas": pandas, "polars": polars, "duckdb": duckdb}
    page = (DOCS / "python.md").read_text()
    for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(text, "python.md", "exec"), names)
    assert names["result"].ok
    assert [row["precision"] for row in names["table"]] == ["fp32", "bf16"]


def test_every_word_of_a_sweep_is_documented() -> None:
    page = (DOCS / "sweep.md").read_text()
    known = vocabulary()
    words = [word.replace("_", "-") for word in known.words | known.settings]
    assert [word for word in words if f"`{word}`" not in page] == []
