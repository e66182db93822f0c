"""A trial's words make the same trial again."""

from pathlib import Path

import pytest
from runs import bars

from convdyno.app.cells import make_trials
from convdyno.app.requests import BenchRequest
from convdyno.cli.main import app
from convdyno.launch.slurm_options import read_order
from convdyno.trial.spec import Trial
from convdyno.trial.words import bench_words

ORDER = read_order("partition=GPU,nodes=2,gres=gpu:k80,cpus-per-task=3")
LINES = [
    "deepmnist",
    "resnet50 --batch 9 --precision bf16 --layout nhwc --devices 2 --compress bf16 --bucket-mb 9.5",
    "resnet50 --mode infer --latency --image-size 224x160 --classes 12 --width 0.5 --device cuda",
    "inception3 --auxiliary --precision fp16 --loss-scale 128 --seed 7 --threads 3",
    "vgg11 --scaling strong --batch 64 --devices 1,4 --exchange independent --accumulate 2",
    "googlenet --optimiser adam --rate 1e-5 --compile on --kernels tuned --feed fit",
    "deepmnist --data bars --crop pad --colour folded --prefetch 2 --input-threads 2 --on-bad skip",
    "deepmnist --mode infer --data bars --view whole --loader native --resize antialiased",
    "resnet50 --devices 4 --processes host --exchange horovod",
]


def asked(words: list[str]) -> BenchRequest:
    """The request that the words of `bench` make."""
    requests: list[BenchRequest] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("convdyno.app.benchmark.bench", lambda request, _: requests.append(request))
        patched.setattr("convdyno.cli.bench.present", lambda *_: None)
        patched.setattr("convdyno.cli.bench._end", lambda *_: None)
        app(["bench", *words], standalone_mode=False)
    return requests[0]


def trials_of(words: list[str]) -> list[Trial]:
    return make_trials(ORDER, asked(["--engine", "reference", *words]).given)


@pytest.mark.parametrize("line", LINES)
def test_words_make_the_trial_again(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bars(tmp_path / "bars")
    for trial in trials_of(line.split()):
        assert trials_of(bench_words(trial)) == [trial]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--engine tf", "--engine tensorflow"),
        ("--engine pytorch,keras/tf", "--engine torch,keras/tensorflow"),
        ("--optimizer adam", "--optimiser adam"),
        ("--color folded", "--colour folded"),
    ],
)
def test_what_hands_type_is_understood(typed: str, meant: str) -> None:
    made = [make_trials(ORDER, asked(["resnet50", *w.split()]).given) for w in (typed, meant)]
    assert made[0] == made[1]


def test_a_ladder_is_climbed_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bars(tmp_path / "bars")
    rungs = trials_of(["deepmnist", "--data", "bars", "--ladder"])
    assert len(rungs) > 1
    assert trials_of(bench_words(rungs[0], ladder=True)) == rungs
