"""How a plan stands by the records that there are, and in what groups and order it is measured."""

from typing import Any

import pytest

from convdyno.store.index import RecordHead, head_of
from convdyno.store.record import Record, new_record
from convdyno.store.sweep_plan import PlannedTrial, SweepPlan, grouped, in_random_order
from convdyno.trial.spec import make_trial

HERE = {"host": "a", "cpu": "fast", "cores_usable": 2}
KIND = "fast, 2 cores"


def a_trial(batch: int = 1, **more: Any) -> Any:
    return make_trial(**{"network": "trivial", "engine": "clockwork", "batch": batch} | more)


def a_head(batch: int = 1, status: str = "ok", **more: Any) -> RecordHead:
    record: Record = new_record(a_trial(batch), **{"machine": HERE, "status": status} | more)
    return head_of(f"{record.id}.json", record, lambda record: {})


def standing(*heads: RecordHead, retry: bool = False, **labels: str) -> str:
    agenda = SweepPlan([PlannedTrial(a_trial(), labels)], KIND, retry=retry)
    agenda.start(heads)
    return agenda.planned[0].standing


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("ok", "done"),
        ("interrupted", "interrupted"),
        ("failed", "failed"),
        ("oom", "failed"),
        ("timeout", "failed"),
        ("refused", "failed"),
        ("skipped", "skipped"),
    ],
)
def test_a_record_of_the_same_trial_says_how_it_stands(status: str, expected: str) -> None:
    assert standing(a_head(status=status)) == expected
    assert standing(a_head(2, status=status)) == "new"


def test_once_measured_it_is_done_whatever_failed_before_or_after() -> None:
    failed, measured = a_head(status="failed"), a_head(status="ok")
    assert standing(failed, measured) == standing(measured, failed) == "done"


def test_an_interrupted_record_is_never_done() -> None:
    assert standing(a_head(status="failed"), a_head(status="interrupted")) == "interrupted"


def test_what_failed_is_new_again_when_it_is_to_be_retried() -> None:
    assert standing(a_head(status="oom"), retry=True) == "new"
    assert standing(a_head(status="ok"), retry=True) == "done"


def test_another_kind_of_machine_another_label_or_a_gate_do_not_count() -> None:
    assert standing(a_head(machine=HERE | {"cpu": "slow"})) == "new"
    assert standing(a_head(machine=HERE | {"host": "b"})) == "done"
    assert standing(a_head(role="base")) == "new"
    assert standing(a_head(labels={"gpu": "k80"}), gpu="p100") == "new"
    assert standing(a_head(labels={"gpu": "k80"}), gpu="k80") == "done"
    assert standing(a_head(labels={"gpu": "k80"})) == standing(a_head(), gpu="k80") == "done"
    assert standing(a_head(labels={"case": "old name"}), case="new name") == "done"


def test_out_of_memory_is_remembered_for_larger_batches_of_the_same_trial() -> None:
    small, large, other = (PlannedTrial(a_trial(b)) for b in (2, 16, 8))
    other.trial = a_trial(8, precision="bf16")
    agenda = SweepPlan([small, large, other], KIND)
    agenda.start([a_head(8, "oom"), a_head(4, "oom")])
    found = agenda.too_large(large)
    assert found is not None
    assert found.trial["batch"] == 4
    assert agenda.too_large(small) is agenda.too_large(other) is None


def test_out_of_memory_is_forgotten_when_it_fitted_later_or_is_retried() -> None:
    one = PlannedTrial(a_trial(16))
    agenda = SweepPlan([one], KIND)
    agenda.start([a_head(4, "oom"), a_head(4, "ok")])
    assert agenda.too_large(one) is None
    again = SweepPlan([one], KIND, retry=True)
    again.start([a_head(4, "oom")])
    assert again.too_large(one) is None


def plan(*paths: str) -> list[PlannedTrial]:
    return [PlannedTrial(a_trial(n + 1), path=tuple(path)) for n, path in enumerate(paths)]


def shape(groups: list[list[PlannedTrial]]) -> list[list[str]]:
    return [["".join(one.path) for one in group] for group in groups]


@pytest.mark.parametrize(
    ("paths", "together", "expected"),
    [
        (["a1", "a2", "b1", "b2"], 4, [["a1", "a2", "b1", "b2"]]),
        (["a1", "a2", "b1", "b2"], 3, [["a1", "a2"], ["b1", "b2"]]),
        (["a1", "a2", "a3", "a4", "a5"], 3, [["a1", "a2"], ["a3", "a4", "a5"]]),
        (["a1", "b2", "c3", "d4"], 2, [["a1", "b2"], ["c3", "d4"]]),
        (["a1", "a2"], 1, [["a1"], ["a2"]]),
        (["a1", "a1", "a1", "b1", "b1"], 2, [["a1", "a1", "a1"], ["b1", "b1"]]),
        ([], 4, []),
    ],
)
def test_groups_are_neighbours_along_the_last_axes(
    paths: list[str], together: int, expected: list[list[str]]
) -> None:
    assert shape(grouped(plan(*paths), together)) == expected


def test_the_order_is_by_chance_and_the_same_for_the_same_seed() -> None:
    letters = [f"{letter}{n}" for letter in "abcdefgh" for n in "12"]
    planned = [
        PlannedTrial(a_trial(seed=n), path=tuple(path)) for n, path in enumerate(letters)
    ]  # fmt: skip
    groups = grouped(planned, 2)
    orders = [shape(in_random_order(groups, seed)) for seed in range(5)]
    assert shape(in_random_order(groups, 3)) == orders[3]
    assert len({str(order) for order in orders}) == 5
    assert all(sorted(map(sorted, order)) == shape(groups) for order in orders)


def test_smaller_batches_of_a_trial_come_first() -> None:
    batches = [1, 2, 4, 8, 16, 32]
    planned = [
        PlannedTrial(a_trial(batch, precision=precision), path=(str(batch), precision))
        for batch in batches
        for precision in ("fp32", "bf16")
    ]
    for seed in range(5):
        order = [one for group in in_random_order(grouped(planned, 1), seed) for one in group]
        for precision in ("fp32", "bf16"):
            found = [one.trial.batch for one in order if one.trial.precision == precision]
            assert found == batches
