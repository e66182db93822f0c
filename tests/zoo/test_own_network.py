"""A network of the user's own, `module:function`, and everything that can be wrong with it."""

import sys
from pathlib import Path

import pytest

from convdyno.errors import BadBlueprint, UsageError
from convdyno.zoo.registry import build, find, networks

NETS = """
from convdyno.blueprint.graph import Blueprint
from convdyno.zoo.registry import network

def plain(net, classes):
    return net.image.conv_relu(8, 3, pad=1).mean().logits(classes).done()

@network("resnet50", image=(16, 16, 1), classes=5, batch=3, note="ours", optimiser="adam")
def decorated(net, classes, auxiliary=False):
    x = net.image.conv_relu(8, 3)
    answer = x.mean().logits(classes)
    with net.scope("aux"):
        return answer.done((x.flatten().logits(classes), 0.5)) if auxiliary else answer.done()

def fixed(net, classes):
    from convdyno.blueprint.draft import Draft
    return Draft("fixed", (8, 8, 3)).image.mean().logits(3).done()

def small_only(net, classes):
    return net.image.conv(4, 500).mean().logits(classes).done()

def raising(net, classes):
    raise RuntimeError("no such thing\\nas a second line")

def leaving(net, classes):
    raise SystemExit(3)

def unfinished(net, classes):
    return net.image.mean().logits(classes)

def no_arguments():
    return None

def bad_pool(net, classes):
    return net.image.max_pool(2, 2, pad=2).mean().logits(classes).done()

constant = 3
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `nets.py`, as the current one."""
    (tmp_path / "nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    return tmp_path


def refusal(name: str, **options: object) -> str:
    with pytest.raises(UsageError) as told:
        build(name, **options)  # type: ignore[arg-type]
    assert "\n" not in str(told.value)
    return str(told.value)


def test_a_plain_function_is_a_network() -> None:
    blueprint = build("nets:plain", image_size=(8, 8), classes=4)
    assert (blueprint.name, blueprint.image, blueprint.classes) == ("nets:plain", (8, 8, 3), 4)


def test_a_plain_function_has_the_usual_image_and_classes() -> None:
    blueprint = build("nets:plain")
    assert (blueprint.image, blueprint.classes) == ((224, 224, 3), 1000)


def test_a_decorated_function_brings_its_own_image_and_classes() -> None:
    blueprint = build("nets:decorated")
    assert (blueprint.image, blueprint.classes) == ((16, 16, 1), 5)


def test_a_decorated_function_brings_its_batch_and_optimiser() -> None:
    entry = find("nets:decorated")
    assert (entry.name, entry.batch, entry.optimiser) == ("nets:decorated", 3, "adam")


def test_a_decorated_function_can_be_called_as_a_function() -> None:
    from convdyno.blueprint.draft import Draft

    assert find("nets:decorated")(Draft("mine", (9, 9, 1)), 2).classes == 2


def test_it_can_have_auxiliary_heads() -> None:
    assert len(build("nets:decorated", auxiliary=True).heads) == 2


def test_it_can_be_narrow() -> None:
    assert build("nets:plain", width=0.5).weights["conv1/kernel"] == (3, 3, 3, 4)


def test_it_never_takes_a_name_of_the_zoo() -> None:
    find("nets:decorated")
    assert networks()["resnet50"].image == (224, 224, 3)


def test_a_network_in_a_package_is_found(here: Path) -> None:
    (here / "my_package").mkdir()
    (here / "my_package" / "models.py").write_text(NETS)
    assert build("my_package.models:plain").classes == 1000


@pytest.mark.parametrize("name", [":", "nets:", ":plain"])
def test_half_a_name_is_refused(name: str) -> None:
    assert refusal(name) == f"a network of your own is package.module:function, not {name!r}"


def test_no_such_module() -> None:
    assert refusal("nowhere.at_all:f") == (
        "there is no module 'nowhere' for the network 'nowhere.at_all:f', "
        "neither in this folder nor installed"
    )


def test_no_such_part_of_a_package() -> None:
    assert refusal("convdyno.zoo.nowhere:f").startswith("there is no module 'convdyno.zoo.nowhere'")


def test_a_module_that_needs_another_that_is_missing(here: Path) -> None:
    (here / "needy.py").write_text("import nowhere_at_all")
    assert refusal("needy:f") == (
        "'needy' cannot be imported: ModuleNotFoundError: No module named 'nowhere_at_all'"
    )


@pytest.mark.parametrize("code", ["1 / 0", "def f(:", "raise SystemExit(1)"])
def test_a_module_that_cannot_be_imported(here: Path, code: str) -> None:
    (here / "broken.py").write_text(code)
    sys.modules.pop("broken", None)
    assert refusal("broken:f").startswith("'broken' cannot be imported: ")


@pytest.mark.parametrize("name", [".nets:plain", "a..b:c", "a b:c", "nets/x:y"])
def test_what_is_no_module_name_is_refused(name: str) -> None:
    assert refusal(name)


def test_no_such_function_suggests_the_nearest() -> None:
    assert refusal("nets:plan") == (
        "the module 'nets' has no function 'plan'. Did you mean 'plain'?"
    )


def test_not_a_function() -> None:
    assert (
        refusal("nets:constant")
        == "'nets:constant' is of the type int, not a function of (net, classes)"
    )


def test_a_function_that_raises() -> None:
    assert refusal("nets:raising") == (
        "nets:raising could not be built: RuntimeError: no such thing"
    )


def test_a_function_that_leaves() -> None:
    assert refusal("nets:leaving") == "nets:leaving could not be built: SystemExit: 3"


def test_a_function_of_other_arguments() -> None:
    assert "TypeError: no_arguments() takes 0 positional arguments" in refusal("nets:no_arguments")


def test_a_function_that_returns_something_else() -> None:
    assert refusal("nets:unfinished") == (
        "nets:unfinished gave something of the type Value, not a blueprint: "
        "end it with `return x.logits(classes).done()`"
    )


def test_a_layer_that_cannot_be_is_told_with_what_it_follows() -> None:
    assert refusal("nets:bad_pool") == (
        "nets:bad_pool: Pool after 'image': "
        "padding (2, 2, 2, 2) leaves windows of (2, 2) with nothing in them"
    )


def test_a_network_of_one_size_only() -> None:
    assert build("nets:fixed").image == (8, 8, 3)
    assert refusal("nets:fixed", image_size=(9, 9)) == (
        "nets:fixed takes no other image size than 8x8"
    )


def test_a_network_of_some_classes_only() -> None:
    assert refusal("nets:fixed", classes=9) == "nets:fixed has 3 classes and cannot have 9"


def test_a_network_that_fits_no_usual_image_says_so_as_it_is() -> None:
    with pytest.raises(BadBlueprint, match=r"^nets:small_only: node 'conv1' \(Conv\): "):
        build("nets:small_only", image_size=(100, 100))


def test_no_auxiliary_heads() -> None:
    assert refusal("nets:plain", auxiliary=True).startswith("nets:plain has no auxiliary heads; ")
