"""Weights of real keras.applications models compute the same in the zoo's networks."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from foreign_models import CLOSE, difference, images_for, our_logits

from convdyno.blueprint.graph import Blueprint
from convdyno.engines.contract import normalise
from convdyno.run.foreign import read_foreign
from convdyno.zoo.foreign import h5
from convdyno.zoo.foreign.convert import foreign_names, from_foreign, recognise, to_foreign
from convdyno.zoo.registry import build

COMPUTED = {
    "ResNet50": ("resnet50-keras", 64),
    "VGG16": ("vgg16", 64),
    "InceptionV3": ("inception3", 107),
    "InceptionResNetV2": ("inception-resnet2-slim", 107),
}
NAMED = {"ResNet101": "resnet101-keras", "ResNet152": "resnet152-keras", "VGG19": "vgg19"}
pytestmark = pytest.mark.slow


def network_of(model: str) -> Blueprint:
    network, side = COMPUTED[model]
    return build(network, (side, side), 10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All models, made by one process: numbered layers do not begin at the same number."""
    folder = tmp_path_factory.mktemp("keras")
    for model in COMPUTED:
        np.save(folder / f"{model}-images.npy", normalise(images_for(network_of(model))))
    words = [f"{model}={side}" for model, (_, side) in COMPUTED.items()]
    script = Path(__file__).with_name("keras_models.py")
    subprocess.run([sys.executable, script, folder, *words, *NAMED], check=True)
    return folder


@pytest.mark.parametrize("model", COMPUTED)
def test_keras_and_the_zoo_answer_the_same(model: str, folder: Path) -> None:
    blueprint = network_of(model)
    arrays = h5.read(folder / f"{model}.weights.h5")
    assert recognise(arrays, blueprint) == "keras"
    weights = from_foreign(arrays, blueprint, "keras")
    theirs = np.load(folder / f"{model}-logits.npy")
    assert difference(our_logits(blueprint, weights, images_for(blueprint)), theirs) < CLOSE

    old = from_foreign(h5.read(folder / f"{model}.h5"), blueprint, "keras")
    assert all(np.array_equal(old[name], weights[name]) for name in weights)
    back = from_foreign(to_foreign(weights, blueprint, "keras"), blueprint, "keras")
    assert all(np.array_equal(back[name], weights[name]) for name in weights)


@pytest.mark.parametrize("model", NAMED)
def test_the_larger_ones_have_the_same_names_and_shapes(model: str, folder: Path) -> None:
    theirs = json.loads((folder / "shapes.json").read_text())[model]
    blueprint = build(NAMED[model])
    names = foreign_names(blueprint, "keras")
    assert {names[n]: list(shape) for n, shape in blueprint.weights.items()} == theirs


def test_the_process_that_reads_h5_files_reads_the_same(folder: Path) -> None:
    path = folder / "InceptionV3.weights.h5"
    direct, asked = h5.read(path), read_foreign(path)
    assert sum(math.prod(array.shape) for array in asked.values()) > 2e7
    assert direct.keys() == asked.keys()
    assert all(np.array_equal(direct[name], asked[name]) for name in direct)
