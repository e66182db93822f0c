"""Recipes have their authors' numbers."""

import pytest

from convdyno.errors import UnknownName
from convdyno.trial.recipes import RECIPES, find, suitable
from convdyno.zoo.registry import networks

NVCNN_RATES = {
    "alexnet": 0.03, "vgg11": 0.02, "vgg16": 0.02, "googlenet": 0.04, "inception3": 0.2,
    "inception4": 0.045, "inception-resnet2": 0.045, "resnext50": 0.1, "overfeat": 0.001,
}  # fmt: skip


@pytest.mark.parametrize(("network", "rate"), NVCNN_RATES.items())
def test_nvcnns_base_rates(network: str, rate: float) -> None:
    recipe = find(f"nvcnn-{network}")
    assert recipe.rate(64) == recipe.rate(2048) == rate
    rule = recipe.optimiser
    assert (rule.momentum, rule.nesterov, rule.weight_decay) == (0.9, True, 1e-4)
    assert rule.decay_on == "all"
    assert (recipe.schedule.kind, recipe.schedule.power, recipe.schedule.warmup) == ("poly", 2, 0)


def test_nvcnns_resnet_rate_grows_with_the_batch() -> None:
    assert find("nvcnn-resnet50").rate(256) == 0.25


def test_the_commands_of_nvcnn_hvd() -> None:
    resnet, inception = find("nvcnn-hvd-resnet50"), find("nvcnn-hvd-inception3")
    assert (resnet.rate(2048), inception.rate(1024)) == (2.0, 1.0)
    for recipe in (resnet, inception):
        assert (recipe.optimiser.larc_eta, recipe.optimiser.larc_mode) == (0.003, "clip")
        assert (recipe.precision, recipe.loss_scale, recipe.epochs) == ("fp16", 128, 90)
    assert "75.5" in resnet.expected
    assert "77.8" in inception.expected


def test_goyals_warm_up_begins_with_the_rate_of_one_small_batch() -> None:
    goyal = find("goyal")
    assert goyal.rate(8192) == pytest.approx(3.2)
    assert goyal.schedule_for(8192).warmup_from == pytest.approx(1 / 32)
    assert goyal.schedule_for(256).warmup_from == 1
    assert find("tf-cnn").schedule_for(2048).warmup_from == 0


def test_keras_rates_over_the_epochs() -> None:
    recipe = find("keras-cifar")
    found = [recipe.schedule.multiple(e, 200) for e in (79, 80, 120, 160, 180)]
    assert found == pytest.approx([1, 0.1, 0.01, 0.001, 0.0005])
    assert recipe.optimiser.kind == "adam"
    assert recipe.rate(32) == 1e-3


def test_the_networks_that_recipes_are_named_after_exist() -> None:
    for name in RECIPES:
        if name.startswith("nvcnn"):
            network = name.removeprefix("nvcnn-").removeprefix("hvd-")
            assert {network, f"{network}-nvcnn"} & networks().keys(), name


def test_what_is_usual() -> None:
    assert suitable("deepmnist", "fashion-mnist").name == "deepmnist"
    assert suitable("resnet20", "cifar10").name == "cifar-fast"
    assert suitable("resnet50", "/data/imagenet").name == "nvcnn-resnet50"


def test_an_unknown_recipe_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="cifar-fast"):
        find("cifar-fst")
