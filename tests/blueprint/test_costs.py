"""Parameters, multiply-accumulates and activation memory, counted by hand for a tiny network."""

from convdyno.blueprint.count import count
from convdyno.blueprint.draft import Draft
from convdyno.blueprint.graph import Blueprint


def tiny() -> Blueprint:
    net = Draft("tiny", (8, 6, 3))
    x = net.image.conv_norm_relu(4, 3, 2, pad=1)
    x = x.conv(8, 1, groups=2, bias=True)
    return x.max_pool(2, 2).flatten().dense(10, bias=False).logits(5).done()


COSTS = {cost.name: cost for cost in count(tiny())}


def test_parameters_node_by_node() -> None:
    assert {name: cost.parameters for name, cost in COSTS.items() if cost.parameters} == {
        "conv1": 3 * 3 * 3 * 4,
        "norm1": 2 * 4,  # the moving averages do not count
        "conv2": 4 // 2 * 8 + 8,
        "dense1": 2 * 1 * 8 * 10,
        "logits": 10 * 5 + 5,
    }


def test_macs_node_by_node() -> None:
    assert {name: cost.macs for name, cost in COSTS.items() if cost.macs} == {
        "conv1": 4 * 3 * (3 * 3 * 3 * 4),
        "conv2": 4 * 3 * (4 // 2 * 8),
        "dense1": 16 * 10,
        "logits": 10 * 5,
    }


def test_activations_are_four_bytes_a_value() -> None:
    assert COSTS["image"].activation_bytes == 4 * 8 * 6 * 3
    assert COSTS["pool1"].activation_bytes == 4 * 2 * 1 * 8


def test_the_whole_is_the_sum_of_the_nodes() -> None:
    blueprint = tiny()
    assert blueprint.parameters == sum(cost.parameters for cost in COSTS.values()) == 108 + 8 + 239
    assert blueprint.macs == sum(cost.macs for cost in COSTS.values())


def test_kernels_are_stored_height_width_in_out() -> None:
    weights = tiny().weights
    assert weights["conv2/kernel"] == (1, 1, 2, 8)
    assert weights["dense1/kernel"] == (16, 10)
