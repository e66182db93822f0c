"""The notebook of the examples runs from its first cell to its last."""

from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "first-look.ipynb"


def run(folder: Path, engine: str) -> dict[str, Any]:
    """The outputs of each cell by its id, with another engine in the cell of settings."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (settings,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
    settings.source += f"\nENGINE = {engine!r}\n"
    client = nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def held(outputs: dict[str, Any]) -> None:
    """See that each cell shows what its text says."""
    (result,) = outputs["bench"]
    assert "images/s" in result.data["text/plain"]
    assert "<table" in result.data["text/html"]
    assert "images/s" in outputs["rows"][0].text
    assert "<table" in outputs["compare"][0].data["text/html"]
    assert outputs["frame"][0].data["text/html"].count("<tr") == 3
    assert "svg" in outputs["draw"][0].data["image/svg+xml"]
    assert "Did you mean 'resnet50'" in outputs["error"][0].text


def test_it_is_stored_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)


def test_it_runs(tmp_path: Path) -> None:
    held(run(tmp_path, "clockwork"))


@pytest.mark.slow
def test_it_runs_with_torch_as_it_is(tmp_path: Path) -> None:
    held(run(tmp_path, "torch"))
