"""The largest batch that fits: found, proven, and never by running the machine out of memory."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psutil import virtual_memory

from convdyno.errors import TrialFailed
from convdyno.launch.launcher import OutOfTime
from convdyno.launch.local import Here
from convdyno.launch.transport import oom_kills
from convdyno.stage.batch_search import FINENESS, PROOF_STEPS, BatchSearch, largest
from convdyno.trial.spec import Trial, make_trial


@given(st.integers(1, 100_000), st.integers(1, 5_000))
def test_the_largest_is_found_to_a_sixteenth(limit: int, first: int) -> None:
    tried = []

    def fits(batch: int) -> bool:
        tried.append(batch)
        return batch <= limit

    found = largest(fits, first)
    assert found <= limit < found + max(1, found // FINENESS) + 1
    assert found in tried
    assert len(tried) == len(set(tried))
    assert len(tried) < 40


def test_nothing_fits() -> None:
    assert largest(lambda batch: False, 64) == 0


class Fake:
    """Workers that hold so many images for the first steps, and so many for longer."""

    def __init__(self, limit: int, longer: int | None = None, fails: str = "oom") -> None:
        self.limit, self.longer, self.fails = limit, limit if longer is None else longer, fails
        self.asked: list[tuple[int, int, float]] = []
        self.live = 0

    def start(self, trial: Trial) -> Any:
        self.live += 1
        assert self.live == 1
        return self

    def ask(self, do: str, *, trial: Any, steps: int, memory_share: float, **_: Any) -> None:
        batch = trial["batch"]
        self.asked.append((batch, steps, memory_share))
        if batch > (self.longer if steps == PROOF_STEPS else self.limit):
            raise TrialFailed(self.fails, f"{batch} images are too many")

    def end(self) -> None:
        self.live -= 1


def searched(fake: Fake, **trial: Any) -> BatchSearch:
    made = make_trial(**{"network": "lenet", "engine": "torch", "batch": 32} | trial)
    search = BatchSearch(fake.start, made, time.monotonic() + 60)
    search.run()
    return search


def test_what_is_found_is_proven_by_more_steps() -> None:
    fake = Fake(200)
    room = searched(fake).room
    assert 188 <= room.batch <= 200
    assert fake.asked[-1][:2] == (room.batch, PROOF_STEPS)
    assert room.too_large is not None
    assert 200 < room.too_large <= 213
    assert f"{room.batch} images fit, {room.too_large} do not" in room.sentence


def test_what_does_not_stand_the_proof_is_made_smaller() -> None:
    room = searched(Fake(200, longer=150)).room
    assert 140 <= room.batch <= 150
    assert room.too_large is not None
    assert room.too_large > room.batch


def test_nothing_fits_is_a_sentence() -> None:
    room = searched(Fake(0)).room
    assert room.batch == 0
    assert room.sentence.startswith("nothing fits, not even one image: 1 images are too many")


def test_a_size_that_never_stands_the_proof_is_nothing() -> None:
    assert searched(Fake(1, longer=0)).room.batch == 0


def test_a_try_leaves_memory_to_others_and_ranks_share_what_it_may_use() -> None:
    fake = Fake(64)
    searched(fake)
    assert {share for _, _, share in fake.asked} == {0.9}
    fake = Fake(64)
    searched(fake, devices=2)
    assert {share for _, _, share in fake.asked} == {0.45}


def test_batches_are_made_of_equal_parts() -> None:
    fake = Fake(200)
    assert searched(fake, batch=30, accumulate=3).room.batch % 3 == 0
    assert all(batch % 3 == 0 for batch, _, _ in fake.asked)


def test_a_crash_of_a_larger_batch_is_its_limit_and_of_the_first_a_failure() -> None:
    room = searched(Fake(100, fails="failed")).room
    assert 94 <= room.batch <= 100
    with pytest.raises(TrialFailed, match="32 images"):
        searched(Fake(0, fails="refused"))


def test_when_the_time_ends_the_largest_so_far_is_told() -> None:
    class Slow(Fake):
        def ask(self, do: str, **more: Any) -> None:
            super().ask(do, **more)
            if len(self.asked) == 3:
                raise OutOfTime("open")

    room = searched(Slow(1000)).room
    assert (room.batch, room.complete) == (64, False)
    assert "perhaps more" in room.sentence


def test_a_real_process_is_refused_memory_and_the_system_ends_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allowed = 700e6
    monkeypatch.setattr("convdyno.stage.batch_search.SHARE", allowed / virtual_memory().available)
    kills = oom_kills()
    trial = make_trial(network="trivial", engine="clockwork", batch=1_000_000)
    room = BatchSearch(lambda one: Here().start(one, 20), trial, time.monotonic() + 300).run()
    image_bytes = 32 * 32 * 3
    assert 0.1 * allowed < room.batch * image_bytes < 1.1 * allowed
    assert room.too_large is not None
    assert "out of memory" in room.reason
    assert oom_kills() == kills


def bench(convdyno: Any, *more: str, device: str = "most=50") -> Any:
    words = ("bench", "trivial", "--engine", "clockwork", "--device", device)
    return convdyno(*words, "--budget", "120s", *more)


def test_bench_takes_the_largest_batch_beside_others(convdyno: Any) -> None:
    outcome = bench(convdyno, "--batch", "8,max", "--json")
    assert outcome.code == 0
    batches = [cell["trial"]["batch"] for cell in outcome.json["cells"]]
    assert batches[0] == 8
    assert 47 <= batches[1] <= 50


def test_bench_says_that_nothing_fits_and_the_record_tells(convdyno: Any) -> None:
    outcome = bench(convdyno, "--batch", "max", device="most=0")
    assert outcome.code == 5
    assert "nothing fits, not even one image" in outcome.err
    assert "oom" in outcome.out


@pytest.mark.parametrize(
    "more", [("--scaling", "strong"), ("--slurm", "partition=cpu")], ids=" ".join
)
def test_the_largest_batch_is_for_one_device_on_this_machine(
    convdyno: Any, more: tuple[str, ...]
) -> None:
    outcome = bench(convdyno, "--batch", "max", *more)
    assert outcome.code == 2
    assert "--batch max is" in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
