"""The graph: what it holds, its JSON, its digest, and malformed ones refused with a sentence."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convdyno.blueprint.draft import Draft
from convdyno.blueprint.graph import Blueprint, Head, Node
from convdyno.blueprint.ops import OPS, Act, Dense, Flatten, Input, Mean
from convdyno.errors import BadBlueprint


def every_op() -> Blueprint:
    """A small network with each op and two heads."""
    net = Draft("every", (8, 8, 3))
    x = net.image.conv_norm_relu(4, 3, pad=1).lrn(2, 1e-4, 0.75)
    x = (x + x.scale(0.5)).concat(x.max_pool(1, 1)).widen(1, 1).avg_pool(2, 2)
    x = x.squeeze_excite(2, "silu", "hardsigmoid").channel_norm().channel_scale().shuffle(2)
    x = x.concat(*x.split())
    with net.scope("aux"):
        aux = x.mean().logits(5)
    return x.flatten().dense(6).dropout(0.5).logits(5).done((aux, 0.3))


DATA: dict[str, Any] = every_op().to_data()


def read(data: object) -> Blueprint:
    return Blueprint.from_json(json.dumps(data))


def refusal(**changes: object) -> str:
    with pytest.raises(BadBlueprint) as told:
        read(DATA | changes)
    return str(told.value)


def node(index: int, **changes: object) -> list[dict[str, Any]]:
    """The nodes, one of them changed."""
    nodes = copy.deepcopy(DATA["nodes"])
    nodes[index] |= changes
    return nodes


def test_the_example_has_every_op() -> None:
    assert {type(n.op).__name__ for n in every_op().nodes} == set(OPS)


def test_json_gives_the_same_blueprint_back() -> None:
    assert Blueprint.from_json(every_op().to_json()) == every_op()


def test_json_gives_the_same_digest_back() -> None:
    assert Blueprint.from_json(every_op().to_json()).digest == every_op().digest


def test_the_name_is_not_part_of_the_digest() -> None:
    assert read(DATA | {"name": "other"}).digest == every_op().digest


@pytest.mark.parametrize(
    "changes",
    [
        {"init": "glorot"},
        {"heads": DATA["heads"][:1]},
        {"nodes": node(2, eps=1e-4)},
        {"nodes": node(0, height=9)},
    ],
    ids=["init", "heads", "field", "image"],
)
def test_anything_else_is_part_of_the_digest(changes: dict[str, object]) -> None:
    assert read(DATA | changes).digest != every_op().digest


def test_inference_needs_no_auxiliary_head() -> None:
    pruned = every_op().for_inference()
    assert len(pruned.heads) == 1
    assert not any(n.name.startswith("aux/") for n in pruned.nodes)


def test_moving_averages_are_not_trained() -> None:
    blueprint = every_op()
    assert blueprint.weights.keys() - blueprint.trainable.keys() == {"norm1/mean", "norm1/variance"}


def test_a_norm_without_scale_has_no_scale() -> None:
    blueprint = read(DATA | {"nodes": node(2, scale=False)})
    assert "norm1/scale" not in blueprint.weights
    assert "norm1/offset" in blueprint.weights


@pytest.mark.parametrize("text", ["", "{", "nonsense", "[" * 100_000, '{"format": 1' + "0" * 5000])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(BadBlueprint, match="is not JSON"):
        Blueprint.from_json(text)


@pytest.mark.parametrize("data", [None, 3, [], {}, {"format": 2}, DATA | {"format": 0}])
def test_another_format_is_refused(data: object) -> None:
    with pytest.raises(BadBlueprint, match="not of format 1"):
        read(data)


@pytest.mark.parametrize("part", ["name", "init", "heads", "nodes"])
def test_a_missing_part_is_named(part: str) -> None:
    with pytest.raises(BadBlueprint, match=f"lacks the part '{part}'"):
        read({key: value for key, value in DATA.items() if key != part})


def test_an_unknown_part_is_named() -> None:
    assert refusal(layout="nchw").startswith("a blueprint has no part 'layout'; it has format, ")


@pytest.mark.parametrize("part", ["name", "init", "heads", "nodes"])
def test_a_part_of_another_type_is_named(part: str) -> None:
    assert refusal(**{part: {}}) == f"the part {part!r} of a blueprint cannot be a dict"


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (node(1, op="Conv3d"), "node 'conv1': unknown op 'Conv3d'; the ops are Input, Conv, "),
        (node(1, op=["Conv"]), "unknown op ['Conv']"),
        (node(1, dilation=2), "node 'conv1': Conv has no field 'dilation'; it has out, kernel, "),
        (node(1, out="4"), "node 'conv1': Conv.out cannot be '4'"),
        (node(1, out=4.0), "Conv.out cannot be 4.0"),
        (node(1, out=True), "Conv.out cannot be True"),
        (node(1, bias=1), "Conv.bias cannot be 1"),
        (node(1, kernel=[3]), "Conv.kernel cannot be [3]"),
        (node(1, pad="same"), "Conv.pad cannot be 'same'"),
        (node(1, out=0), "node 'conv1': out must be positive, not 0"),
        (node(1, kernel=[9, 99]), "every: node 'conv1' (Conv): a 9x99 window does not fit"),
        (node(2, eps=float("nan")), "Norm.eps cannot be nan"),
        (node(2, eps=10**400), "Norm.eps cannot be 1000"),
        (node(2, decay=1.0), "decay 1.0 in [0, 1)"),
        (node(3, kind="swish"), "Act.kind cannot be 'swish'"),
        (node(1, name=7), "a node needs a name and a list of inputs, not name=7"),
        (node(1, inputs="image"), "a node needs a name and a list of inputs"),
        (node(1, inputs=[1]), "a node needs a name and a list of inputs"),
        (node(1, inputs=[]), "every: node 'conv1' (Conv) has 0 inputs, not 1"),
        (node(1, inputs=["image", "image"]), "has 2 inputs, not 1"),
        (node(6, inputs=["scale1"]), "node 'add1' (Add) has 1 inputs, not 2 or more"),
        (node(1, inputs=["nowhere"]), "node 'conv1' (Conv) reads 'nowhere', which does not exist"),
        (node(1, inputs=["norm1"]), "reads 'norm1', which comes after it, or in a cycle with it"),
        (node(1, inputs=["conv1"]), "reads 'conv1', which comes after it, or in a cycle with it"),
        (node(2, name="conv1"), "node 'conv1' (Norm) has a name that an earlier node has"),
        ([*DATA["nodes"], "more"], "a node is an object with a name, an op and inputs, not 'more'"),
        ([{"name": "x", "inputs": [], "op": "Input", "height": 3}], "Input lacks a field"),
        (DATA["nodes"][1:], "node 'conv1' (Conv) reads 'image', which does not exist"),
        ([], "every must have exactly one Input node"),
        ([*DATA["nodes"], DATA["nodes"][0] | {"name": "second"}], "exactly one Input node"),
    ],
)
def test_a_malformed_node_is_told_in_a_sentence(nodes: object, told: str) -> None:
    assert told in refusal(nodes=nodes)


@pytest.mark.parametrize(
    ("heads", "told"),
    [
        ([], "every has no output"),
        ([["nowhere", 1.0]], "the output 'nowhere' is not a node"),
        ([["image", 1.0]], "not one score for each class"),
        ([["logits", 1.0], ["dense1", 0.3]], "the output 'dense1' has the shape (6,)"),
        (["logits"], "an output is a node's name and its share in the loss, not 'logits'"),
        ([["logits"]], "an output is a node's name and its share"),
        ([["logits", "1"]], "an output is a node's name and its share"),
        ([["logits", float("nan")]], "an output is a node's name and its share"),
        ([["logits", 10**400]], "an output is a node's name and its share"),
        ([["logits", -1.0]], "an output is a node's name and its share"),
    ],
)
def test_a_malformed_head_is_told_in_a_sentence(heads: object, told: str) -> None:
    assert told in refusal(heads=heads)


def test_an_unknown_initialisation_is_named() -> None:
    assert refusal(init="zeros") == "every: no initialisation is called 'zeros'"


def test_a_graph_made_by_hand_is_checked_too() -> None:
    nodes = (Node("image", Input(2, 2, 1)), Node("dense", Dense(3), ("image",)))
    with pytest.raises(BadBlueprint, match=r"by_hand: node 'dense' \(Dense\): a dense"):
        Blueprint("by_hand", nodes, (Head("dense"),))


def test_a_cycle_made_by_hand_is_refused() -> None:
    nodes = (
        Node("image", Input(2, 2, 1)),
        Node("a", Act(), ("b",)),
        Node("b", Flatten(), ("a",)),
    )
    with pytest.raises(BadBlueprint, match="in a cycle"):
        Blueprint("cyclic", nodes, (Head("b"),))


def test_one_name_for_two_nodes_of_a_draft_is_refused() -> None:
    net = Draft("twice", (4, 4, 3))
    x = net.image.conv(2, 1, name="a").conv(2, 1, name="a")
    with pytest.raises(BadBlueprint, match="has a name that an earlier node has"):
        x.then(Mean()).done()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["image", "conv1", "Conv", "relu", 10**400, -1, 0, 1]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> object:
    """The example with some place anywhere in it replaced, removed or doubled."""
    data = copy.deepcopy(DATA)
    for _ in range(draw(st.integers(1, 3))):
        place: Any = data
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
                place = place[key]
                continue
            match draw(st.sampled_from(["replace", "remove", "double"])):
                case "replace":
                    place[key] = draw(json_values)
                case "remove":
                    del place[key]
                case "double" if isinstance(place, list):
                    place.insert(key, copy.deepcopy(place[key]))
            break
    return data


@settings(max_examples=150, deadline=None)
@given(mutated())
def test_mutated_json_is_read_or_refused(data: object) -> None:
    try:
        blueprint = read(data)
    except BadBlueprint:
        return
    assert Blueprint.from_json(blueprint.to_json()) == blueprint


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(BadBlueprint):
        Blueprint.from_json(text)
