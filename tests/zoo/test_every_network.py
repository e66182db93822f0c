"""What holds for each network of the zoo."""

import pytest

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Conv, Norm
from convdyno.zoo.registry import build, networks

ZOO = networks()
each = pytest.mark.parametrize("name", ZOO)


@each
def test_it_has_the_image_and_classes_that_its_entry_says(name: str) -> None:
    blueprint = build(name)
    assert (blueprint.image, blueprint.classes) == (ZOO[name].image, ZOO[name].classes)


@each
@pytest.mark.parametrize("width", [0.125, 0.3, 0.77, 2.0])
def test_it_can_be_narrow_or_wide(name: str, width: float) -> None:
    assert (build(name, width=width).parameters < build(name).parameters) == (
        width < 1 and not name.startswith("trivial")
    )


@each
def test_a_tiny_width_keeps_the_graph(name: str) -> None:
    tiny, whole = build(name, width=0.001), build(name)
    assert [node.inputs for node in tiny.nodes] == [node.inputs for node in whole.nodes]


@each
def test_it_takes_another_image_size_and_number_of_classes(name: str) -> None:
    height, width, channels = ZOO[name].image
    other = build(name, image_size=(height + 33, width + 6), classes=7)
    assert (other.image, other.classes) == ((height + 33, width + 6, channels), 7)


@each
def test_two_builds_have_one_digest(name: str) -> None:
    assert build(name).digest == build(name).digest


@each
def test_it_survives_json(name: str) -> None:
    blueprint = build(name)
    assert Blueprint.from_json(blueprint.to_json()) == blueprint


@each
def test_it_says_what_is_special_about_it(name: str) -> None:
    assert ZOO[name].note
    assert "\n" not in ZOO[name].note


@each
def test_a_bias_before_batch_norm_is_keras_only(name: str) -> None:
    blueprint = build(name)
    biased = {n.name for n in blueprint.nodes if isinstance(n.op, Conv) and n.op.bias}
    normed = {i for n in blueprint.nodes if isinstance(n.op, Norm) for i in n.inputs}
    assert not biased & normed or "-keras" in name


def test_no_two_networks_have_one_digest() -> None:
    digests = {build(name).digest for name in ZOO}
    assert len(digests) == len(ZOO)


def test_a_variant_names_its_tool_in_its_note() -> None:
    tools = {"nvcnn": "nvcnn", "tfperftest": "tfperftest", "tfcnn": "tf_cnn", "keras": "eras"}
    for name, entry in ZOO.items():
        for tool, word in tools.items():
            assert f"-{tool}" not in name or word in entry.note


def test_the_nvcnn_variants_have_nvcnns_batch_norm_and_start() -> None:
    for name in (n for n in ZOO if n.endswith("-nvcnn")):
        blueprint = build(name)
        assert blueprint.init == "glorot"
        assert {n.op for n in blueprint.nodes if isinstance(n.op, Norm)} <= {Norm(1e-4, 0.9)}


def test_resnet_layers_are_named_as_in_the_paper() -> None:
    weights = build("resnet50").weights
    assert weights["conv1/conv1/kernel"] == (7, 7, 3, 64)
    assert weights["conv3_1/conv2/kernel"] == (3, 3, 128, 128)
    assert weights["conv5_3/norm3/scale"] == (2048,)
    assert weights["conv2_1/shortcut/conv1/kernel"] == (1, 1, 64, 256)
    assert weights["logits/kernel"] == (2048, 1000)


def test_inception_layers_are_numbered_branch_by_branch() -> None:
    # torchvision's Mixed_6b: branch1x1, branch7x7_1 to _3, branch7x7dbl_1 to _5, branch_pool
    weights = build("inception3").weights
    kernels = [weights[f"mixed_6b/conv{n}/kernel"] for n in range(1, 11)]
    assert [k[:2] for k in kernels] == [
        (1, 1), (1, 1), (1, 7), (7, 1), (1, 1), (7, 1), (1, 7), (7, 1), (1, 7), (1, 1)
    ]  # fmt: skip
    assert [k[3] for k in kernels] == [192, 128, 128, 192, 128, 128, 128, 128, 192, 192]


@pytest.mark.parametrize(
    ("name", "shares"),
    {"googlenet": [1.0, 0.3, 0.3], "inception3": [1.0, 0.4]}.items(),
)
def test_auxiliary_heads_have_their_share_in_the_loss(name: str, shares: list[float]) -> None:
    assert [head.weight for head in build(name, auxiliary=True).heads] == shares


@pytest.mark.parametrize("name", [n for n, entry in ZOO.items() if entry.auxiliary])
def test_auxiliary_heads_vanish_for_inference(name: str) -> None:
    assert build(name, auxiliary=True).for_inference() == build(name)
