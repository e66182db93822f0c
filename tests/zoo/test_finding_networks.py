"""Finding networks by name, and what is said when they cannot be built."""

import subprocess
import sys

import pytest

from convdyno.errors import BadBlueprint, UnknownName, UsageError
from convdyno.zoo.registry import build, find, networks


def test_a_name_finds_its_entry() -> None:
    assert find("resnet50").name == "resnet50"


def test_an_entry_knows_its_family() -> None:
    assert (find("resnext50").family, find("resnet20-keras").family) == ("resnext", "cifar")


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName) as told:
        build("resnett50")
    assert str(told.value) == (
        "no network is called 'resnett50'. Did you mean 'resnet50'? "
        f"`convdyno list networks` shows all {len(networks())}."
    )


def test_too_small_an_image_is_one_sentence() -> None:
    with pytest.raises(BadBlueprint) as told:
        build("inception3", image_size=(20, 20))
    assert str(told.value) == (
        "inception3 cannot be built for images of 20x20: node 'stem/pool2' (Pool): "
        "a 3x3 window does not fit an input of 1x1; its own size is 299x299; "
        "the smallest square that works is 75"
    )


# torchvision's min_size of alexnet, vgg and inception_v3; Keras's of InceptionResNetV2
@pytest.mark.parametrize(
    ("name", "side"),
    {"alexnet": 63, "vgg16": 32, "inception3": 75, "inception-resnet2-slim": 75}.items(),
)
def test_the_smallest_square_is_the_documented_one(name: str, side: int) -> None:
    assert build(name, image_size=(side, side)).image[0] == side
    with pytest.raises(BadBlueprint, match=f"the smallest square that works is {side}$"):
        build(name, image_size=(side - 1, side - 1))


def test_one_side_can_be_too_small() -> None:
    with pytest.raises(BadBlueprint, match="images of 400x20: "):
        build("vgg16", image_size=(400, 20))


def test_an_image_of_no_size_is_refused() -> None:
    with pytest.raises(UsageError, match="images of 0x3: Input: height must be positive"):
        build("resnet50", image_size=(0, 3))


@pytest.mark.parametrize("classes", [0, -1])
def test_a_network_needs_a_class(classes: int) -> None:
    with pytest.raises(UsageError, match=f"at least one class, not {classes}$"):
        build("resnet50", classes=classes)


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan"), float("inf")])
def test_a_width_is_a_positive_number(width: float) -> None:
    with pytest.raises(UsageError, match="width must be a positive number"):
        build("resnet50", width=width)


def test_auxiliary_heads_where_there_are_none_are_refused() -> None:
    with pytest.raises(UsageError) as told:
        build("resnet50", auxiliary=True)
    assert str(told.value) == (
        "resnet50 has no auxiliary heads; these have: googlenet, inception3, inception3-torchvision"
    )


def test_listing_imports_no_numpy() -> None:
    code = "import convdyno.zoo.registry as r, sys; r.networks(); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_the_registry_imports_no_family() -> None:
    code = "import convdyno.zoo.registry, sys; sys.exit('convdyno.zoo.resnet' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
