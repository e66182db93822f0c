"""Each command of docs/cookbook.md is run, those of a question one after the other."""

from pathlib import Path
from typing import Any

import pytest
import shown

PAGE = (shown.DOCS / "cookbook.md").read_text()
QUESTIONS = {
    title: lines for title, text in shown.sections(PAGE).items() if (lines := shown.fenced(text))
}
ELSEWHERE = [
    # tests/cli/test_bench_data.py climbs a ladder with torch: real images take real time.
    "convdyno bench resnet50 --data photos --ladder",
    # These need other hosts and Slurm; tests/cluster has both, and the like of these commands.
    "convdyno bench resnet50 --nodes nodes.txt --per-node 4",
    "convdyno bench resnet50 --slurm partition=GPU,gres=gpu:k80,time=15 --devices 1,2,4 --detach",
    "convdyno jobs wait",
    "convdyno jobs collect",
]
HERE = {
    title: ours
    for title, lines in QUESTIONS.items()
    if (ours := [line for line in lines if line not in ELSEWHERE])
}


def test_what_is_not_run_is_on_the_page() -> None:
    lines = [line for lines in QUESTIONS.values() for line in lines]
    assert [line for line in ELSEWHERE if line not in lines] == []
    assert lines == shown.fenced(PAGE)


@pytest.mark.slow
@pytest.mark.parametrize("question", HERE)
def test_an_answer_runs(question: str, convdyno: Any, tmp_path: Path) -> None:
    shown.prepare(tmp_path)
    for line in HERE[question]:
        shown.run(line, convdyno, tmp_path)
