"""What the reference said is kept for as long as nothing changes that it depends on."""

from pathlib import Path
from typing import Any

import pytest
import stored_reference
from stored_reference import BEGIN, StoredReference, sources


class Scribe:
    """A worker that writes down how often it was asked."""

    asked = 0

    def __init__(self, environment: object) -> None:
        pass

    def ask(self, do: str, *, silence: float, to: str, **more: Any) -> dict[str, Any]:
        type(self).asked += 1
        Path(to).write_text(f"{do} {more['blueprint']}")
        Path(more["question"]).write_text("asked")
        return {"event": "posed", "condition": 0.5}

    def end(self) -> None:
        pass


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(stored_reference, "LocalWorker", Scribe)
    monkeypatch.setattr(Scribe, "asked", 0)

    def fresh(blueprint: str, question: str = "question", **more: Any) -> tuple[str, int]:
        reference, to = StoredReference(tmp_path / "cache"), tmp_path / "answer"
        asked = tmp_path / question
        more |= {"to": str(to), "question": str(asked), "blueprint": blueprint}
        said = reference.ask("pose", silence=1, **more)
        assert asked.read_text() == "asked"
        assert said == {"event": "posed", "condition": 0.5}
        reference.end()
        return to.read_text(), Scribe.asked

    return fresh


def test_a_question_is_asked_once(ask: Any) -> None:
    assert ask("a") == ("pose a", 1)
    assert ask("a", question="elsewhere") == ("pose a", 1)


def test_another_question_is_asked(ask: Any) -> None:
    ask("a")
    assert ask("b") == ("pose b", 2)
    assert ask("b", brief=True) == ("pose b", 3)


def test_after_a_change_of_the_sources_it_is_asked_again(
    ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("a")
    stored_reference.version.cache_clear()
    changed = {name: text + "#" for name, text in sources(BEGIN).items()}
    monkeypatch.setattr(stored_reference, "sources", lambda begin: changed)
    assert ask("a") == ("pose a", 2)
    stored_reference.version.cache_clear()


def test_all_that_the_reference_is_computed_with_is_among_the_sources() -> None:
    found = sources(BEGIN)
    for part in ("run.evidence", "engines.reference", "engines.reference_backward", "blueprint.ops",
                 "engines.reference_update", "blueprint.graph", "blueprint.weights"):  # fmt: skip
        assert found[f"convdyno.{part}"]
