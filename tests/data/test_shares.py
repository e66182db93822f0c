"""What each of several ranks gets of the data: together what one rank would have had."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pictures import photos

from convdyno.data.augment import Transform
from convdyno.data.pipeline import BatchOrder, Pipeline, Position

numbers = {
    "count": st.integers(1, 120), "batch": st.integers(1, 9), "size": st.integers(1, 7),
    "seed": st.integers(0, 9),
}  # fmt: skip


@given(**numbers, epoch=st.integers(0, 3))
def test_a_step_of_all_ranks_is_the_step_of_one_with_the_whole_batch(
    count: int, batch: int, size: int, seed: int, epoch: int
) -> None:
    one = BatchOrder(count, batch * size, endless=True, seed=seed)
    ranks = [
        BatchOrder(count, batch, endless=True, seed=seed, rank=r, size=size) for r in range(size)
    ]
    assert {rank.batches for rank in ranks} == {one.batches}
    for number in range(one.batches):
        at = Position(epoch, number)
        parts = [rank.examples(at) for rank in ranks]
        assert [len(part) for part in parts] == [batch] * size
        assert np.concatenate(parts).tolist() == one.examples(at).tolist()


@given(**numbers)
def test_in_evaluation_every_example_comes_once_over_all_ranks(
    count: int, batch: int, size: int, seed: int
) -> None:
    ranks = [BatchOrder(count, batch, endless=False, rank=r, size=size) for r in range(size)]
    shares = [
        [e for n in range(rank.batches) for e in rank.examples(Position(0, n)).tolist()]
        for rank in ranks
    ]
    assert sorted(sum(shares, [])) == list(range(count))  # noqa: RUF017
    lengths = [len(share) for share in shares]
    assert max(lengths) - min(lengths) <= 1


def test_an_image_is_cropped_and_coloured_alike_on_whichever_rank() -> None:
    source = photos(13)
    more = {"image": (16, 16, 3), "train": True, "seed": 4, "transform": Transform(colour="folded")}
    with Pipeline(source, batch=6, **more) as one:
        whole = [tuple(array.copy() for array in next(one)) for _ in range(5)]
    parts = []
    for rank in range(3):
        with Pipeline(source, batch=2, rank=rank, size=3, **more) as pipeline:
            parts.append([tuple(array.copy() for array in next(pipeline)) for _ in range(5)])
    for step, (images, labels) in enumerate(whole):
        assert np.array_equal(np.concatenate([part[step][0] for part in parts]), images)
        assert np.array_equal(np.concatenate([part[step][1] for part in parts]), labels)
