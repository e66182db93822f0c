"""What is shown fits the terminal, says first what was found, and has no digit too many."""

import io

import made_up
import pytest

from convdyno.report.cell import cell_of
from convdyno.report.comparisons import compare_cells
from convdyno.report.console import Screen
from convdyno.report.format import between, reached, times
from convdyno.report.text_table import fitted
from convdyno.stats.compare import Comparison
from convdyno.store.record import Record
from convdyno.terminal import duration, rough_time, wrapped

TWO = (made_up.made(), made_up.made(164, precision="bf16"))


def shown(*records: Record, columns: int | None = None, shortfall: str = "") -> str:
    out = io.StringIO()
    cells = [cell_of(record) for record in records]
    Screen(out, columns).bench(cells, compare_cells(cells), shortfall=shortfall)
    return out.getvalue()


def disturbed() -> Record:
    record = made_up.made()
    processes = tuple(
        one.but(blocks=tuple(b.model_copy(update={"foreign_share": 0.9}) for b in one.blocks))
        for one in record.processes
    )
    return record.but(processes=processes)


@pytest.mark.parametrize("columns", [80, 40])
def test_every_line_fits_and_no_word_is_broken(columns: int) -> None:
    records = (*TWO, made_up.made(engine="tensorflow", rounds=1), made_up.failed(batch=64))
    narrow, wide = shown(*records, columns=columns), shown(*records)
    assert max(map(len, narrow.splitlines())) <= columns
    words = {word.strip("(:,;)") for word in wide.split()}
    assert {word.strip("(:,;)") for word in narrow.split()} <= words


def test_columns_that_say_little_go_first() -> None:
    header = next(line for line in shown(*TWO, columns=80).splitlines() if "images/s  " in line)
    assert "95 % interval" in header and "first step" not in header


def test_what_fits_nowhere_is_said_row_by_row() -> None:
    rows = [{"engine": "tensorflow", "network": "inception-resnet2", "images/s": "12.5"}]
    assert list(fitted(rows, 30, ["images/s"])) == [
        [],
        ["tensorflow: network", "  inception-resnet2, images/s", "  12.5"],
    ]


def test_what_was_found_comes_first() -> None:
    lines = shown(*TWO).splitlines()
    found = lines.index(next(line for line in lines if line.startswith("bf16 is faster than fp32")))
    assert found < lines.index(next(line for line in lines if line.startswith("engine ")))


def test_alike_warnings_are_one_and_the_worst_is_first() -> None:
    text = shown(disturbed().but(warnings=("the disk is slow",)), disturbed().but(id="b"))
    minds = [line for line in text.splitlines() if line.startswith("mind:")]
    assert len(minds) == 2
    assert "disturbed" in minds[0] and "disk" in minds[1]


def test_a_cell_that_was_always_disturbed_is_not_ok() -> None:
    rows = [line for line in shown(disturbed()).splitlines() if line.startswith("torch")]
    assert rows[0].endswith("disturbed")


def test_a_ratio_of_disturbed_cells_is_told_with_that_reservation() -> None:
    two = disturbed(), disturbed().but(id="b", trial=TWO[1].trial)
    assert "measured beside other work all the time" in shown(*two)
    assert "beside other work all the time" not in shown(*TWO)


def test_one_process_has_no_interval() -> None:
    assert "n/a (1 process)" in shown(made_up.made(rounds=1))


def test_headers_name_the_version_of_every_engine() -> None:
    assert "; torch 1.2.3, jax 1.2.3" in shown(made_up.made(), made_up.made(engine="jax"))


def test_what_was_not_reached_is_told_with_what_limits_it() -> None:
    assert "±1 % was not reached; what limits" in shown(*TWO, shortfall="±1 % was not reached")


def test_digits_are_those_that_a_figure_deserves() -> None:
    assert times(Comparison(1.0234, 0.9512, 1.1, verdict="undecided")) == "1.02 [0.95, 1.10]"
    assert times(Comparison(1.6, 1.5, 1.7, verdict="faster")) == "1.600 [1.500, 1.700]"
    assert reached(1234.0, 1300.0) == "1234 ±5.3 %"
    assert reached(1234.0, 1600.0) == "1200 ±30 %"
    assert between(8.123, 12.345) == "8.1 to 12"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (41, "41 s"), (247, "4 min 07 s"), (300, "5 min"), (3720, "1 h 02 min")],
)
def test_time_has_one_format(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (41, 88, "40 to 90 s"),
        (70, 290, "1 to 5 min"),
        (3, 4, "about 5 s"),
        (4000, 9000, "1 to 3 h"),
    ],
)
def test_time_that_is_guessed_is_a_range(low: float, high: float, words: str) -> None:
    assert rough_time(low, high) == words


def test_no_line_ends_between_a_number_and_its_unit() -> None:
    assert wrapped("it takes about 500 ms", 18) == "it takes about\n  500 ms"
