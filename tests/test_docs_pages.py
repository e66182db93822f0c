"""Pages for users: their commands run, and what they list is all there is."""

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
import shown

from convdyno.report.page import SECTIONS
from convdyno.store.record import Status

ROOT = Path(__file__).parents[1]
ELSEWHERE = {
    "faq.md": [
        # Real images take real time; tests/run trains with parts of a batch.
        "convdyno train resnet50 --data DIR --batch 32 --accumulate 4",
        # Two engines: tests/stage/test_certify.py and tests/cli/test_compare_command.py have them.
        "convdyno certify resnet50 --engine torch,jax",
        "convdyno compare results --by engine --where network=resnet50",
    ],
}
HOSTS = ("node1", "node2")
MACHINES = (*HOSTS, "a", "b")
"""The last two are twins, which only their labels tell apart."""
MEASURE = "convdyno bench trivial --batch 8 --precision fp32,bf16"


def page(name: str) -> str:
    return (shown.DOCS / name).read_text()


def lines(name: str) -> list[str]:
    return [line for line in shown.fenced(page(name)) if line not in ELSEWHERE.get(name, [])]


def test_what_is_not_run_is_on_the_page() -> None:
    for name, left in ELSEWHERE.items():
        assert set(left) <= set(shown.fenced(page(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["install.md", "faq.md", "page.md"])
def test_the_commands_of_a_page_run(name: str, convdyno: Any, tmp_path: Path) -> None:
    shown.prepare(tmp_path)
    for line in ["convdyno bench trivial", *lines(name)]:
        shown.run(line, convdyno, tmp_path)


@pytest.mark.slow
def test_two_machines_are_compared_step_by_step(
    convdyno: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for machine in MACHINES:
        if machine in HOSTS:
            monkeypatch.setattr("socket.gethostname", lambda host=machine: host)
        more = ["--out", f"{machine}/results", "--label", f"machine={machine}"]
        assert convdyno(*shown.small(MEASURE), *more).code == 0
    for line in lines("machines.md"):
        shown.run(line, convdyno, tmp_path)


def test_every_section_of_the_report_is_explained() -> None:
    told = page("page.md")
    assert [heading for heading, _ in SECTIONS.values() if f"## {heading}\n" not in told] == []


def test_every_extra_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    told = set(re.findall(r"`([a-z]+)`", page("install.md")))
    assert extras.keys() - told == {"test"}


def test_words_are_in_order_and_each_is_there_once() -> None:
    words = re.findall(r"^\| ([\w, -]+) \| ", page("glossary.md"), re.MULTILINE)[1:]
    assert words == sorted(words, key=str.lower)
    assert len(words) == len(set(words)) > 30


def test_every_status_is_a_word_of_the_glossary() -> None:
    assert [word for word in get_args(Status) if f"`{word}`" not in page("glossary.md")] == []
