"""Evaluation: every image exactly once, and what is counted is what a hand would count."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import runs
import small_photos

from convdyno.errors import BadData, LossLost
from convdyno.run.evaluate import evaluate
from convdyno.stats.accuracy import wilson


class Scripted:
    """A session whose scores are the images themselves."""

    def place(self, images: Any, labels: Any) -> Any:
        return images

    def logits(self, batch: Any) -> Any:
        return np.asarray(batch, np.float32)


def count(scores: list[list[float]], labels: list[int], batch: int = 2) -> Any:
    batches = [
        (np.array(scores[i : i + batch]), np.array(labels[i : i + batch]))
        for i in range(0, len(scores), batch)
    ]
    return evaluate(Scripted(), batches, len(scores[0]))  # type: ignore[arg-type]


def test_all_images_count_the_last_partial_batch_too() -> None:
    found = count([[9, 0, 0], [0, 9, 0], [0, 9, 0], [0, 0, 9], [0, 0, 9]], [0, 1, 2, 2, 0])
    assert (found.images, found.top1) == (5, 3)
    assert found.confusion.tolist() == [[1, 0, 1], [0, 1, 0], [0, 1, 1]]
    data = found.to_data(("a", "b", "c"), full=True)
    assert [one["top1"] for one in data["classes"]] == [0.5, 1.0, 0.5]
    assert [one["images"] for one in data["classes"]] == [2, 1, 2]


def test_the_lower_class_wins_a_tie_and_only_one_image_is_right() -> None:
    found = count([[1, 1, 0], [1, 1, 0]], [0, 1])
    assert (found.top1, found.top5) == (1, 2)
    assert found.confusion.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_top_5_of_seven_classes() -> None:
    scores = [[7.0, 6, 5, 4, 3, 2, 1]] * 7
    found = count(scores, list(range(7)), batch=3)
    assert (found.top1, found.top5) == (1, 5)


def test_top_5_of_fewer_classes_is_always_right() -> None:
    assert count([[0, 5, 1]] * 3, [0, 1, 2]).top5 == 3


def test_the_loss_is_the_mean_cross_entropy_whatever_the_batches() -> None:
    scores, labels = [[0.0, 0.0], [1000.0, 0.0], [0.0, 1.0]], [0, 0, 0]
    expected = (np.log(2) + 0 + np.log(1 + np.e)) / 3
    for batch in (1, 2, 3):
        assert count(scores, labels, batch).loss == pytest.approx(expected)


@pytest.mark.parametrize("score", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_no_answers(score: float) -> None:
    with pytest.raises(LossLost, match="not finite"):
        count([[score, 0.0]], [0])


def test_without_images_there_is_nothing_to_count() -> None:
    with pytest.raises(BadData):
        evaluate(Scripted(), [], 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("right", "of", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilsons_interval_is_the_published_one(right: int, of: int, low: float, high: float):
    assert wilson(right, of) == pytest.approx((low, high), abs=5e-5)


def test_a_checkpoint_is_counted_the_same_in_any_batches(tmp_path: Path, convdyno: Any) -> None:
    runs.prepare(tmp_path)
    more = ("--engine", "reference", *runs.SIZE, "--epochs", "6", "--ema", "0.9")
    runs.finish(tmp_path, runs.PLAIN, "run", *more)
    (_, *_, last) = runs.evaluations(tmp_path / "run")
    words = ("eval", "run", "--network", runs.PLAIN, "--json", "--batch")
    for batch in ("1", "5", "13", "64"):
        found = convdyno(*words, batch).json
        assert found["images"] == 13 and found["averaged"]
        assert found["top1_images"] == last["top1_images"]
        assert found["loss"] == pytest.approx(last["loss"], rel=1e-5)
    raw = convdyno(*words, "5", "--raw").json
    assert not raw["averaged"] and raw["loss"] != pytest.approx(found["loss"], rel=1e-3)


def test_data_of_other_classes_are_refused(tmp_path: Path, convdyno: Any) -> None:
    small_photos.photos(tmp_path / "three", ["ant", "bee", "cat"])
    small_photos.photos(tmp_path / "others", ["ant", "bee", "dog"])
    trained = convdyno(
        "train", "trivial", "--data", "three", "--engine", "reference", "--image-size", "16",
        "--width", "0.05", "--batch", "3", "--epochs", "1", "--log-dir", "run",
    )  # fmt: skip
    assert trained.code == 0, trained.err
    assert convdyno("eval", "run", "--json").json["images"] == 3
    refused = convdyno("eval", "run", "--data", "others")
    assert refused.code == 2
    assert "others has other classes than run/checkpoint" in refused.err
    assert "'dog' instead of 'cat'" in refused.err


@pytest.mark.slow
def test_auxiliary_heads_are_for_training_alone(tmp_path: Path, convdyno: Any) -> None:
    small_photos.photos(tmp_path / "three", ["ant", "bee", "cat"])
    trained = convdyno(
        "train", "googlenet", "--auxiliary", "--data", "three", "--engine", "torch",
        "--width", "0.125", "--image-size", "96", "--batch", "3", "--epochs", "2",
        "--rate", "1e-6", "--log-dir", "run", "--json",
    )  # fmt: skip
    assert trained.code == 0, trained.err
    (run,) = trained.json["runs"]
    found = convdyno("eval", "run", "--json").json
    assert found["top1_images"] == run["evaluation"]["top1_images"]
    assert found["loss"] == pytest.approx(run["evaluation"]["loss"], rel=1e-4)
