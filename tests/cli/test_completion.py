"""The shell is offered names, and offering costs the other commands nothing."""

import os
import subprocess
import sys

import pytest


def offered(*words: str) -> list[str]:
    """What bash would offer for the last of these words."""
    line = ["convdyno", *words]
    around = os.environ | {
        "_CONVDYNO_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    code = "import sys; sys.argv = ['convdyno']; from convdyno.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=around, capture_output=True, text=True, timeout=120
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("swe",), "sweep"),
        (("bench", "resnet5"), "resnet50"),
        (("bench", "vgg16,resnet5"), "vgg16,resnet50"),
        (("bench", "resnet50", "--engine", "torch,keras/j"), "torch,keras/jax"),
        (("bench", "resnet50", "--eng"), "--engine"),
        (("train", "deepmnist", "--recipe", "goy"), "goyal"),
        (("show", "inception-"), "inception-resnet2"),
        (("results", "arch"), "archive"),
        (("bench", "resnet50", "--precision", "fp32,b"), "fp32,bf16"),
        (("bench", "resnet50", "--mode", "in"), "infer"),
        (("train", "resnet20", "--data", "cif"), "cifar10"),
        (("compare", "--by", "prec"), "precision"),
    ],
)
def test_names_are_offered(words: tuple[str, ...], name: str) -> None:
    assert name in offered(*words)


def test_nothing_is_offered_for_what_nothing_begins_with() -> None:
    assert offered("bench", "xyz") == []
