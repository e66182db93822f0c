"""Training and evaluating on several ranks: what comes out is what one rank would have found."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ranks_here
import runs

from convdyno.errors import UsageError
from convdyno.launch.local import Here
from convdyno.run.checkpoint import random_of_all, state_of
from convdyno.run.resume import compare_data
from convdyno.store.training_runs import read_run
from convdyno.trial.spec import make_trial

ENGINES = (
    "torch", "jax", "tensorflow",
    # Each starts three processes of Keras; tests/engines has what Keras's ranks exchange.
    *(pytest.param(f"keras/{on}", marks=pytest.mark.long) for on in ("torch", "jax", "tensorflow")),
)  # fmt: skip
BARE = "mine:bare"
NETWORK = """

def bare(net, classes):
    x = net.image.conv_relu(4, 3, stride=2).conv_relu(4, 3)
    return x.mean().logits(classes).done()
"""
"""Without batch norm, whose statistics are each rank's own, and without dropout."""
SIZE = ("--image-size", "14", "--rate", "0.02")
ONE = ("--batch", "8")
TWO = ("--batch", "4", "--devices", "2", "--rank-timeout", "2m")
"""The same images a step; a busy machine may leave a rank no breath for a while."""
SCRIPTED = ("--engine", "clockwork", *SIZE)
SLOWLY = ("--device", "clock=real;step=0.01;warm=0")


def prepare(folder: Path, **counts: int) -> None:
    runs.prepare(folder, **counts)
    with (folder / "mine.py").open("a") as file:
        file.write(NETWORK)


def history(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def workers_of(process: Any) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=240)[1]


def close(one: Path, other: Path) -> None:
    """Two runs came to the same but for rounding."""
    left, right = (runs.arrays(runs.checkpoints(folder)[-1]) for folder in (one, other))
    names = {name for name in left if not name.startswith(("state/own", "state/random"))}
    assert names == {n for n in right if not n.startswith(("state/own", "state/random"))}
    for name in names:
        np.testing.assert_allclose(left[name], right[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_two_ranks_are_one_run(tmp_path: Path, convdyno: Any) -> None:
    runs.prepare(tmp_path)
    more = (*SCRIPTED, "--epochs", "3", "--display-every", "2")
    runs.finish(tmp_path, runs.PLAIN, "one", *more, *ONE)
    said = runs.finish(tmp_path, runs.PLAIN, "two", *more, *TWO)
    assert "batch 4 on each of 2 devices (8 together)" in said
    assert said.count("Step Epoch Img/sec") == 1 and said.count("trained at step 15 of 15") == 1
    one, two = (history(tmp_path / run, "step") for run in ("one", "two"))
    assert [line["step"] for line in two] == [line["step"] for line in one] == list(range(2, 16, 2))
    assert [line["loss"] for line in two] == [line["loss"] for line in one]
    assert all(line["largest_wait_share"] >= line["wait_share"] for line in two)
    assert runs.evaluations(tmp_path / "two") == runs.evaluations(tmp_path / "one")
    assert len(list((tmp_path / "two").glob("events.out.tfevents.*"))) == 1
    document = convdyno(*runs.command(runs.PLAIN, "two", *more, *TWO)[3:], "--json").json
    assert document["runs"][0]["images"] == 15 * 8 and document["runs"][0]["already"]


def test_a_signal_saves_once_and_ends_all(tmp_path: Path) -> None:
    runs.prepare(tmp_path)
    more = (*SCRIPTED, *SLOWLY, *TWO, "--epochs", "100", "--display-every", "5")
    process = runs.start(tmp_path, runs.PLAIN, "run", *more)
    runs.wait_for_row(process, step=20)
    workers = workers_of(process)
    assert len(workers) == 2
    os.kill(process.pid, signal.SIGTERM)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 143, said
    assert said.count("stopped and saved at step") == 1 and "mind:" not in said
    assert gone(workers)
    record = read_run(tmp_path / "run")
    assert record.status == "stopped"
    last = runs.checkpoints(tmp_path / "run")[-1]
    assert runs.standing(last)["standing"]["step"] == record.attempts[0].step


def test_a_killed_rank_is_named_and_the_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    runs.prepare(tmp_path)
    more = (*SCRIPTED, *SLOWLY, *TWO, "--epochs", "60", "--display-every", "5")
    process = runs.start(tmp_path, runs.PLAIN, "run", *more)
    runs.wait_for_row(process, step=20)
    workers = workers_of(process)
    workers[1].kill()
    _, said = process.communicate(timeout=240)
    assert process.returncode == 5 and gone(workers)
    assert "rank 1 on this machine died (SIGKILL) while training" in said
    again = runs.finish(tmp_path, runs.PLAIN, "run", *SCRIPTED, *TWO, "--epochs", "60")
    assert "going on from step" in again and "trained at step 300 of 300" in again


def test_a_lost_loss_of_any_rank_ends_all_with_one_sentence(tmp_path: Path) -> None:
    runs.prepare(tmp_path)
    script = ("--device", "fail=nan;at=8;rank=1")
    more = (*SCRIPTED, *script, *TWO, "--epochs", "5")
    said = runs.finish(tmp_path, runs.PLAIN, "run", *more, code=5)
    assert "the loss became nan on rank 1 at step 10" in said.splitlines()[-1]
    assert [path.name for path in runs.checkpoints(tmp_path / "run")] == [
        "checkpoint-000000005.safetensors"
    ]
    assert read_run(tmp_path / "run").status == "nan"


def test_another_number_of_devices_goes_on_if_the_images_of_a_step_stay(tmp_path: Path) -> None:
    runs.prepare(tmp_path)
    slow = (*SCRIPTED, *SLOWLY, "--epochs", "24", "--display-every", "5")
    process = runs.start(tmp_path, runs.PLAIN, "run", *slow, *TWO)
    assert runs.stop_after(process, 20, signal.SIGTERM) == 143
    for wrong, give in ((("--batch", "4"), "8"), ((*TWO, *ONE), "4")):
        said = runs.finish(tmp_path, runs.PLAIN, "run", *slow, *wrong, code=2)
        assert "was begun with 8 images a step" in said and f"give --batch {give}," in said
    assert runs.stop_after(runs.start(tmp_path, runs.PLAIN, "run", *slow, *ONE), 60, signal.SIGTERM)
    said = runs.finish(tmp_path, runs.PLAIN, "run", *slow, *TWO)
    assert "trained at step 120 of 120" in said
    assert [line["step"] for line in history(tmp_path / "run", "step")] == list(range(5, 121, 5))
    assert [one.status for one in read_run(tmp_path / "run").attempts][-2:] == [
        "stopped", "finished"
    ]  # fmt: skip


def test_ranks_that_somebody_else_has_made_train_and_evaluate(tmp_path: Path) -> None:
    runs.prepare(tmp_path)
    job = os.environ | {"CONVDYNO_SIZE": "2", "CONVDYNO_JOB": f"{tmp_path}"}
    patient = ("--rank-timeout", "2m")
    train = runs.command(runs.PLAIN, "run", *SCRIPTED, "--batch", "4", "--epochs", "3", *patient)
    eval_ = [*train[:3], "eval", "run", "--network", runs.PLAIN, "--json", *patient]
    for command in (train, eval_):
        second, first = (
            subprocess.Popen(
                command, cwd=tmp_path, env=job | {"CONVDYNO_RANK": rank}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for rank in "10"
        )  # fmt: skip
        out, said = first.communicate(timeout=240)
        assert first.returncode == 0, said
        assert second.communicate(timeout=240) == ("", "") and second.returncode == 0
        if command == train:
            assert "batch 4 on each of 2 devices (8 together)" in said
    assert json.loads(out)["top1_images"] == runs.evaluations(tmp_path / "run")[-1]["top1_images"]


BAD = {
    "no exchange": (("--exchange", "independent"), "is for bench"),
    "another exchange": (("--exchange", "horovot"), "Did you mean 'horovod'"),
    "half a device": (("--devices", "1.5"), "--devices must be a whole number"),
    "too many": (("--devices", "4000"), "4000 devices were asked for, and this machine has"),
    "uneven parts": (("--accumulate", "3"), "cannot be cut into 3 equal parts"),
    "a lone engine": (("--engine", "reference", *TWO), "the reference engine runs on one device"),
}


@pytest.mark.parametrize(("more", "said"), BAD.values(), ids=BAD)
def test_what_ranks_cannot_do_is_one_sentence(
    tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    runs.prepare(tmp_path)
    found = runs.finish(tmp_path, runs.PLAIN, "run", *SCRIPTED, *ONE, *more, code=2)
    assert said in found.strip().splitlines()[-1]


class Pictures:
    """As much of a source as ranks compare."""

    def __init__(self, count: int) -> None:
        self.count, self.facts = count, self
        self.classes, self.path = ("a", "b"), "pictures"

    def __len__(self) -> int:
        return self.count


def test_ranks_with_other_images_are_named() -> None:
    def compare(ranks: Any) -> None:
        source: Any = Pictures(100 + (ranks.world.rank == 2))
        compare_data(source, None, ranks)

    first, *_ = ranks_here.together(3, compare)
    assert isinstance(first, UsageError) and "rank 2 sees 101 training" in str(first)


def test_each_rank_has_its_random_numbers_back_and_a_new_one_has_the_firsts() -> None:
    parts: Any = [{"random/x": np.array([n]), "random/same": np.array([5])} for n in range(3)]
    kept = random_of_all(parts) | {"updates": np.array(4)}
    assert sorted(kept) == [
        "random/rank-1/x", "random/rank-2/x", "random/same", "random/x", "updates"
    ]  # fmt: skip
    for rank, number in enumerate((0, 1, 2, 0)):
        assert state_of(rank, kept) == {
            "random/x": [number], "random/same": [5], "updates": 4
        }  # fmt: skip


def counted(file: Path, trial: Any) -> dict[str, Any]:
    team = Here().start(trial, rank_seconds=120)
    try:
        more = {"trial": trial.model_dump(mode="json"), "averaged": True, "full": True}
        return team.ask("evaluate", silence=100, checkpoint=str(file), **more)
    finally:
        team.end()


@pytest.mark.slow
def test_any_number_of_ranks_counts_the_same(tmp_path: Path, convdyno: Any, monkeypatch) -> None:
    runs.prepare(tmp_path, train=160, test=53)
    more = ("--engine", "torch", *SIZE, *ONE, "--epochs", "3", "--ema", "0.9")
    runs.finish(tmp_path, runs.PLAIN, "run", *more)
    words = ("eval", "run", "--network", runs.PLAIN, "--full", "--json", "--view", "whole")
    one = convdyno(*words).json
    two = convdyno(*words, "--devices", "2", "--batch", "7").json
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    three = counted(runs.checkpoints(tmp_path / "run")[-1], make_trial(
        network=runs.PLAIN, engine="torch", mode="infer", batch=5, devices=3, threads=1,
        image_size=(14, 14), classes=10, data="bars", view="whole",
    ))  # fmt: skip
    assert one["images"] == 53 and one["top1_images"] > 0
    for found in (two, three):
        for name in ("images", "top1_images", "top5_images", "confusion", "averaged"):
            assert found[name] == one[name], name
        assert found["loss"] == pytest.approx(one["loss"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_two_ranks_go_down_the_curve_of_one_with_the_same_batch(
    tmp_path: Path, engine: str
) -> None:
    prepare(tmp_path, train=160)
    more = ("--engine", engine, *SIZE, "--optimiser", "sgd", "--epochs", "3", "--clip-norm", "1",
            "--schedule", "cosine", "--display-every", "1")  # fmt: skip
    runs.finish(tmp_path, BARE, "one", *more, *ONE)
    runs.finish(tmp_path, BARE, "two", *more, *TWO)
    one, two = (
        [line["loss"] for line in history(tmp_path / run, "step")] for run in ("one", "two")
    )
    assert len(one) == 60 and one[-1] < one[0]
    assert two == pytest.approx(one, rel=1e-3)
    close(tmp_path / "two", tmp_path / "one")
    counts = [runs.evaluations(tmp_path / run)[-1]["top1_images"] for run in ("one", "two")]
    assert counts[0] == counts[1]


@pytest.mark.slow
def test_devices_may_come_and_go(tmp_path: Path) -> None:
    prepare(tmp_path, train=160)
    more = ("--engine", "torch", *SIZE, "--optimiser", "sgd", "--epochs", "5", "--schedule",
            "poly:1", "--display-every", "1")  # fmt: skip
    runs.finish(tmp_path, BARE, "whole", *more, *ONE)
    for step, devices in ((20, TWO), (50, ONE)):
        process = runs.start(tmp_path, BARE, "cut", *more, *devices)
        assert runs.stop_after(process, step, signal.SIGTERM) == 143
    runs.finish(tmp_path, BARE, "cut", *more, *TWO)
    close(tmp_path / "cut", tmp_path / "whole")
    one, two = (
        [line["loss"] for line in history(tmp_path / run, "step")] for run in ("whole", "cut")
    )
    assert two == pytest.approx(one, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    # Eight processes each; where it starts again does not depend on the framework.
    ["torch", *(pytest.param(name, marks=pytest.mark.long) for name in ("jax", "tensorflow"))],
)
def test_killed_ranks_come_to_the_same_end_to_the_bit(tmp_path: Path, engine: str) -> None:
    """With batch norm, dropout, bf16 and averages of the weights on two ranks."""
    runs.prepare(tmp_path, train=200)
    more = ("--engine", engine, *runs.EVERYTHING, *TWO, "--epochs", "10", "--display-every", "7",
            "--eval-every", "2.2", "--save-interval", "0.2")  # fmt: skip
    runs.finish(tmp_path, runs.RICH, "whole", *more)
    for step in (40, 140):
        process = runs.start(tmp_path, runs.RICH, "cut", *more)
        runs.wait_for_row(process, step=step)
        workers = workers_of(process)
        if step == 40:
            process.kill()
        else:
            workers[0].kill()
        process.communicate(timeout=240)
        assert gone(workers)
        time.sleep(0.1)
    runs.finish(tmp_path, runs.RICH, "cut", *more)
    runs.assert_same(tmp_path / "cut", tmp_path / "whole")
