"""What people see while a run goes on: it fits, it comes often enough, and never during a block."""

import io
import time

import pytest

from convdyno.stage import progress
from convdyno.stage.progress import Foresight, Narrator, fit_line


class Terminal(io.StringIO):
    """Somebody who looks on."""

    def isatty(self) -> bool:
        return True


def test_the_line_has_round_cell_rate_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = Terminal()
    narrator = Narrator(out)
    narrator.foresee(Foresight.after(5, 100.0, 1000.0, enough=True))
    narrator.learn({"jax, bf16": "14.2 ±3 % images/s"})
    narrator.measuring(1, 0, "jax, bf16", 1000.0)
    narrator.clear()
    line = "round 2 of about 5, measuring jax, bf16, 14.2 ±3 % images/s, 1 to 3 min left"
    assert line in out.getvalue()


@pytest.mark.parametrize("columns", [80, 40, 20])
def test_the_line_fits(columns: int) -> None:
    parts = ["round 2 of about 5", "measuring keras/tensorflow, bf16, batch 128", "14.2 images/s"]
    assert len(fit_line(parts, ", 2 to 4 min left", columns)) <= columns


def test_rates_are_left_out_before_what_is_running() -> None:
    line = fit_line(["round 2", "measuring jax", "14.2 images/s"], ", 4 min left", 40)
    assert line == "round 2, measuring jax, 4 min left"


def lines_after_waiting(narrator: Narrator, out: io.StringIO, lines: int) -> str:
    end = time.monotonic() + 30
    while out.getvalue().count("\n") < lines and time.monotonic() < end:
        time.sleep(0.01)
    narrator.clear()
    return out.getvalue()


def test_without_a_terminal_waiting_is_told_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.02)
    out = io.StringIO()
    narrator = Narrator(out)
    narrator.opening(0, "torch", 60.0)
    assert lines_after_waiting(narrator, out, 3).count("round 1, starting torch") >= 3


def test_nothing_is_told_of_waiting_to_who_wants_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    out = io.StringIO()
    narrator = Narrator(out, quiet=True)
    with narrator.waiting("certifying"):
        narrator.measuring(0, 0, "torch", 60.0)
    assert out.getvalue() == ""


def test_nothing_is_drawn_while_something_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.01)
    out = Terminal()
    narrator = Narrator(out)
    narrator.opening(0, "torch", 60.0)
    narrator.measuring(0, 0, "torch", 60.0)
    before = out.getvalue()
    time.sleep(0.2)
    assert out.getvalue() == before
