"""Bad input gets one clear sentence and exit code 2, and nothing is lost."""

from pathlib import Path
from typing import Any

import pytest

CASES = [
    (("bench", "resnet_50"), "Did you mean 'resnet50'"),
    (("bench", "resnet50", "--engine", "troch"), "Did you mean 'torch'"),
    (("bench", "resnet50", "--precision", "bf61"), "Did you mean 'bf16'"),
    (("bench", "resnet50", "--mode", "predict"), "no mode is called 'predict'"),
    (("bench", "resnet50", "--batch", "0"), "--batch must be a whole number from 1 up"),
    (("bench", "resnet50", "--batch", "16,"), "empty value"),
    (("bench", "resnet50", "--batch", "many"), "--batch must be a whole number"),
    (("bench", "inception3", "--image-size", "20"), "the smallest square that works is 75"),
    (("bench", "resnet50", "--image-size", "big"), "an image size is 224 or 224x160"),
    (("bench", "resnet50", "--budget", "soon"), "--budget is a time"),
    (("bench", "resnet50", "--within", "300%"), "--within"),
    (("bench", "resnet50", "--auxiliary"), "resnet50 has no auxiliary heads"),
    (("bench", "googlenet", "--auxiliary", "--mode", "infer"), "auxiliary heads are for training"),
    (("bench", "resnet50", "--loss-scale", "128"), "a loss scale is for training in fp16"),
    (("bench", "resnet50", "--data", "imagnet"), "imagnet"),
    (("bench", "resnet50", "--ladder"), "give them with --data PATH"),
    (("bench", "resnet50", "--stage-from", "a=/tmp"), "give them with --data PATH"),
    (("bench", "resnet50", "--stage-from", "/tmp"), "--stage-from is a list such as"),
    (("bench", "resnet50", "--colour", "vivid"), "no colour is called 'vivid'"),
    (("bench", "resnet50", "--input-threads", "0"), "--input-threads must be a whole number"),
    (("bench",), "which network?"),
    (("bench", "resnet50", "--network", "vgg16"), "given twice"),
    (("bench", "--network", "nowhere.at.all:net"), "there is no module 'nowhere'"),
    (("bench", "trivial", "--engine", "clockwork", "--out", "/proc/x"), "cannot be written"),
    (("show", "resnt50"), "Did you mean 'resnet"),
    (("show", "resnet50", "--classes", "1"), "--classes"),
    (("show", "resnet50", "--width", "-1"), "--width"),
    (("list", "nets"), "Did you mean 'networks'"),
    (("results", "list"), "there is no results folder"),
    (("results", "show", "x"), "there is no results folder"),
]


@pytest.mark.parametrize(("arguments", "said"), CASES, ids=[" ".join(a) for a, _ in CASES])
def test_one_sentence_and_exit_code_2(convdyno: Any, arguments: tuple[str, ...], said: str) -> None:
    outcome = convdyno(*arguments)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.out == ""
    assert len(outcome.err.strip().splitlines()) == 1


def test_nothing_is_made_before_the_input_is_known_to_be_good(
    convdyno: Any, tmp_path: Path
) -> None:
    convdyno("bench", "resnet5", "--out", "results")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_option_is_answered_with_the_nearest(convdyno_process: Any) -> None:
    outcome = convdyno_process("bench", "resnet50", "--precison", "bf16")
    assert outcome.code == 2
    assert "--precision" in outcome.err


def test_an_engine_that_is_not_installed_names_the_command(
    convdyno_process: Any, tmp_path: Path
) -> None:
    # Without the environment's packages there is no torch; the core's own are put back one by one.
    blocker = tmp_path / "sitecustomize.py"
    blocker.write_text(
        "from importlib import metadata\n"
        "version = metadata.version\n"
        "def without_torch(name):\n"
        "    if name == 'torch':\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return version(name)\n"
        "metadata.version = without_torch\n"
    )
    outcome = convdyno_process(
        "bench", "resnet50", "--engine", "torch", env={"PYTHONPATH": str(tmp_path)}
    )
    assert outcome.code == 2
    assert "pip install 'convdyno[torch]'" in outcome.err
