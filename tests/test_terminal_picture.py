"""Pictures of the terminal: what is left on the screen, drawn without anything from the net."""

from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture
def picture(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(TOOLS)
    return TOOLS


def test_progress_that_was_taken_away_is_not_in_it(picture: Path) -> None:
    from terminal_picture import settled

    seen = (
        "begun\r\nround 1\r\x1b[Kround 2\r\x1b[K\x1b[1mfound\x1b[0m\r\nwaits\r\x1b[K\r\n\r\nend\r\n"
    )
    assert settled(seen) == "begun\n\x1b[1mfound\x1b[0m\n\nend"


def test_a_picture_holds_the_command_and_its_output_and_no_address(picture: Path) -> None:
    from terminal_picture import drawn

    svg = drawn("convdyno list", "\x1b[1mnetworks\x1b[0m\nresnet50", 40)
    assert "convdyno&#160;list" in svg
    assert "resnet50" in svg
    assert "http" not in svg.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_a_real_command_is_told_how_wide_the_terminal_is(picture: Path) -> None:
    from terminal_picture import STYLE, printed

    texts = [STYLE.sub("", printed(["show", "deepmnist"], columns)) for columns in (100, 40)]
    wide, narrow = (max(map(len, text.splitlines())) for text in texts)
    assert narrow <= 40 < wide <= 100
