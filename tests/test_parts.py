"""How `make test` divides the tests: every one is in a part, and a part that is none is told."""

from pathlib import Path

import pytest
from _pytest.mark.expression import Expression
from parts import ROOT, Part, all_parts, folders


def runs(part: Part, path: str, marks: set[str]) -> bool:
    """Whether pytest would run a test with these marks in that file as of this part."""
    ignored = [word.removeprefix("--ignore=") for word in part.more if word.startswith("--ignore")]
    given = [word for word in part.more if word.startswith("tests/")]
    here = any(path.startswith(place) for place in given or ["tests"])
    chosen = Expression.compile(part.choice).evaluate(lambda name, **_: name in marks)
    return here and not any(map(path.startswith, ignored)) and chosen


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize(
    ("path", "marks"),
    [
        ("tests/stats/test_verdicts.py", set()),
        ("tests/run/test_train.py", {"slow"}),
        ("tests/zoo/test_published.py", {"slow"}),
        ("tests/engines/test_reference.py", set()),
        ("tests/engines/test_relay.py", {"slow"}),
        ("tests/engines/test_certified_zoo.py", {"slow"}),
        ("tests/weights/test_convert.py", {"slow"}),
        ("tests/browser/test_report_page.py", {"slow", "browser"}),
        ("tests/cluster/test_ssh.py", {"slow", "cluster"}),
        ("tests/test_layers.py", set()),
    ],
)
def test_every_test_is_in_one_part(path: str, marks: set[str], long: bool) -> None:
    assert (ROOT / path).exists()
    beside, parts = all_parts(long=long)
    for more in (set(), {"long"}):
        found = [part.name for part in (beside, *parts) if runs(part, path, marks | more)]
        assert len(found) == (long or not more), found


def test_a_layer_is_run_by_its_name() -> None:
    assert folders("stats") == ["tests/stats"]


def test_another_name_is_told_with_the_possible_ones() -> None:
    with pytest.raises(SystemExit, match=r"no part of the tests is called 'nets': .*blueprint"):
        folders("nets")


def test_every_folder_of_tests_is_a_part() -> None:
    for path in sorted((ROOT / "tests").glob("*/test_*.py")):
        assert folders(Path(path).parent.name)
