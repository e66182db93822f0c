"""The cover of the zoo leaves nothing out that an engine could lower in another way."""

from collections.abc import Callable

import pytest
from zoo_cover import cover, shortened, signatures

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.graph import Blueprint


def network(body: Callable[[Value], Value], side: int = 32, width: int = 8) -> Blueprint:
    x = body(Draft("made-up", (side, side, 3)).image.conv_norm_relu(width, 3, pad=1))
    return x.mean().logits(5).done()


def deep(blocks: int) -> Blueprint:
    def body(x: Value) -> Value:
        for _ in range(blocks):
            x = (x.conv_norm_relu(8, 3, pad=1).conv_norm(8, 3, pad=1) + x).relu()
        return x

    return network(body)


@pytest.mark.parametrize(
    ("one", "other"),
    {
        "kernel": (lambda x: x.conv(8, 3), lambda x: x.conv(8, 5)),
        "stride": (lambda x: x.conv(8, 3, 1), lambda x: x.conv(8, 3, 2)),
        "padding": (lambda x: x.conv(8, 3, 2, 1), lambda x: x.conv(8, 3, 2, (0, 1, 0, 1))),
        "groups": (lambda x: x.conv(8, 3), lambda x: x.conv(8, 3, groups=2)),
        "depthwise": (lambda x: x.conv(8, 3, groups=2), lambda x: x.conv(8, 3, groups=8)),
        "bias": (lambda x: x.conv(8, 3), lambda x: x.conv(8, 3, bias=True)),
        "window": (lambda x: x.avg_pool(3, 1, 1), lambda x: x.avg_pool(3, 1, 1, count_pad=True)),
        "act": (lambda x: x.act("relu6"), lambda x: x.act("tanh")),
        "order": (lambda x: x.conv(8, 3).norm().relu(), lambda x: x.conv(8, 3).relu().norm()),
        "shared": (lambda x: x.conv(8, 1).relu() + x, lambda x: x.conv(8, 1).relu() + x.conv(8, 1)),
        "size": (lambda x: x.conv(8, 3, 2, 1), lambda x: x.conv(8, 2).conv(8, 3, 2, 1)),
    }.values(),
)
def test_what_engines_may_tell_apart_is_told_apart(
    one: Callable[[Value], Value], other: Callable[[Value], Value]
) -> None:
    assert signatures(network(other)) - signatures(network(one))


def test_depth_and_width_make_no_difference() -> None:
    assert signatures(deep(9)) == signatures(deep(2))
    plain, wide = (network(lambda x: x.conv(8, 3), width=width) for width in (4, 12))
    assert signatures(plain) == signatures(wide)


def test_heads_are_told_apart() -> None:
    x = Draft("two", (8, 8, 3)).image.conv_relu(4, 3)
    two = x.mean().logits(5).done((x.flatten().logits(5, "side"), 0.3))
    assert signatures(two) - signatures(two.for_inference())


def test_a_deep_network_is_cut_down_and_keeps_its_signatures() -> None:
    wanted = signatures(deep(20))
    short = shortened(deep(20), wanted)
    assert wanted <= signatures(short)
    assert len(short.nodes) < len(deep(4).nodes)


def test_near_variants_need_one_network() -> None:
    assert len(cover([deep(2), deep(5), deep(9)])) == 1


def test_what_is_known_is_not_covered_again() -> None:
    assert cover([deep(5)], known=[deep(2)]) == []


def test_a_new_network_with_something_new_is_covered_by_itself() -> None:
    new = network(lambda x: x.conv(8, (5, 3), (2, 1), (1, 0, 2, 2)).act("leaky", 0.3))
    old = cover([deep(2)])
    (more,) = cover([deep(2), new], known=old)
    assert signatures(new) <= signatures(more).union(*map(signatures, old))


def test_a_gradient_flows_where_it_flowed() -> None:
    """A layer that follows the image directly would not show how it is differentiated."""
    pooled = network(lambda x: x.max_pool(3, 2))
    (wanted,) = (s for s in signatures(pooled) if s[0] == "Pool")
    short = shortened(pooled, frozenset({wanted}))
    before = short.nodes[[node.name for node in short.nodes].index("pool1") - 1]
    assert short.trainable
    assert before.name != "image"
