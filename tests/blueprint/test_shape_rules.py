"""What each op makes of a shape, and how paddings are resolved."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from convdyno.blueprint.draft import Draft, Value
from convdyno.blueprint.ops import (
    LRN,
    Act,
    Add,
    ChannelGate,
    ChannelNorm,
    ChannelScale,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Input,
    Mean,
    Norm,
    Pool,
    Scale,
    Shuffle,
    Slice,
    Widen,
)
from convdyno.errors import BadBlueprint

IMAGE = (9, 7, 4)


def image(height: int, width: int, channels: int = 4) -> Value:
    return Draft("test", (height, width, channels)).image


@pytest.mark.parametrize(
    ("op", "inputs", "shape"),
    [
        (Input(9, 7, 4), [], (9, 7, 4)),
        (Conv(8, (3, 3)), [IMAGE], (7, 5, 8)),
        (Conv(8, (3, 1), (2, 1), (1, 1, 0, 0)), [IMAGE], (5, 7, 8)),
        (Norm(), [IMAGE], IMAGE),
        (Act("leaky", 0.1), [IMAGE], IMAGE),
        (Pool("max", (2, 2), (2, 2)), [IMAGE], (4, 3, 4)),
        (Mean(), [IMAGE], (4,)),
        (Flatten(), [IMAGE], (252,)),
        (Dense(5), [(252,)], (5,)),
        (Dropout(0.5), [(5,)], (5,)),
        (Add(), [IMAGE, IMAGE, IMAGE], IMAGE),
        (Concat(), [IMAGE, (9, 7, 2)], (9, 7, 6)),
        (Concat(), [(3,), (4,)], (7,)),
        (Scale(0.1), [IMAGE], IMAGE),
        (LRN(2, 1e-4, 0.75), [IMAGE], IMAGE),
        (Widen(1, 3), [IMAGE], (9, 7, 8)),
        (ChannelGate(), [IMAGE, (4,)], IMAGE),
        (ChannelNorm(), [IMAGE], IMAGE),
        (ChannelScale(), [(5,)], (5,)),
        (Slice(1, 2), [IMAGE], (9, 7, 2)),
        (Shuffle(2), [IMAGE], IMAGE),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, tuple | list) else "",
)
def test_an_op_makes_of_a_shape(
    op: Conv, inputs: list[tuple[int, ...]], shape: tuple[int, ...]
) -> None:
    assert op.shape(*inputs) == shape


@pytest.mark.parametrize(
    ("op", "inputs", "told"),
    [
        (Conv(8, (3, 3)), [(2, 9, 4)], "a 3x3 window does not fit an input of 2x9"),
        (Conv(8, (1, 1), groups=3), [IMAGE], "4 -> 8 channels do not divide into 3 groups"),
        (Conv(8, (1, 1)), [(5,)], "an image is needed here"),
        (Pool("max", (2, 2), (2, 2)), [(1, 9, 4)], "a 2x2 window does not fit"),
        (Mean(), [(5,)], "an image is needed here"),
        (Dense(5), [IMAGE], "flatten it first"),
        (Add(), [IMAGE, (9, 7, 5)], "cannot add unlike shapes"),
        (Concat(), [IMAGE, (9, 8, 4)], "cannot concatenate unlike shapes"),
        (Concat(), [IMAGE, (4,)], "cannot concatenate unlike shapes"),
        (ChannelGate(), [IMAGE, (3,)], "an image and a vector of its channels"),
        (ChannelGate(), [(4,), (4,)], "an image is needed here"),
        (Slice(3, 2), [IMAGE], "there are no 2 of 4 channels from 3"),
        (Shuffle(3), [IMAGE], "4 channels do not divide into 3 groups"),
    ],
)
def test_an_op_refuses_a_shape(op: Conv, inputs: list[tuple[int, ...]], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        op.shape(*inputs)


sizes = st.integers(1, 40)
kernels = st.integers(1, 9)
strides = st.integers(1, 5)


@given(sizes, sizes, kernels, strides)
def test_same_padding_makes_the_output_ceil_of_input_by_stride(
    height: int, width: int, kernel: int, stride: int
) -> None:
    out = image(height, width).conv(1, kernel, stride, pad="same")
    assert out.shape[:2] == (math.ceil(height / stride), math.ceil(width / stride))


@given(sizes, kernels, strides)
def test_same_padding_is_no_more_than_needed_and_its_odd_cell_is_at_the_end(
    size: int, kernel: int, stride: int
) -> None:
    draft = image(size, size).conv(1, kernel, stride, pad="same").draft
    conv = draft.done(draft.image.mean()).nodes[1].op
    assert isinstance(conv, Conv)
    top, bottom, left, right = conv.pad
    # TensorFlow's rule for SAME
    total = max(0, (math.ceil(size / stride) - 1) * stride + kernel - size)
    assert (top, bottom) == (left, right) == (total // 2, math.ceil(total / 2))


def pytorch_pool_size(size: int, kernel: int, stride: int, pad: int, ceil: bool) -> int:
    """ATen/native/Pool.h: the last window must start inside the input or its near padding."""
    out = size + 2 * pad - kernel + (stride - 1 if ceil else 0)
    out = out // stride + 1
    return out - 1 if ceil and (out - 1) * stride >= size + pad else out


@given(sizes, kernels, strides, st.integers(0, 4), st.booleans())
def test_a_pool_has_pytorchs_size(
    size: int, kernel: int, stride: int, pad: int, ceil: bool
) -> None:
    assume(pad <= kernel // 2)  # PyTorch allows no more
    wanted = pytorch_pool_size(size, kernel, stride, pad, ceil)
    assume(wanted >= 1 and size + 2 * pad >= kernel)
    assert image(size, size).max_pool(kernel, stride, pad, ceil=ceil).shape[:2] == (wanted, wanted)


@given(sizes, kernels, strides)
def test_ceil_pads_at_the_end_only_and_leaves_no_window_empty(
    size: int, kernel: int, stride: int
) -> None:
    assume(size >= kernel)
    draft = image(size, size).max_pool(kernel, stride, ceil=True).draft
    pool = draft.done(draft.image.mean()).nodes[1].op
    assert isinstance(pool, Pool)
    top, bottom, left, right = pool.pad
    assert (top, left) == (0, 0)
    assert bottom == right < kernel


@pytest.mark.parametrize(
    ("pad", "resolved"),
    [(2, (2, 2, 2, 2)), ((1, 2), (1, 1, 2, 2)), ((0, 1, 2, 3), (0, 1, 2, 3))],
)
def test_a_padding_becomes_four_numbers(pad: object, resolved: tuple[int, ...]) -> None:
    draft = image(9, 9).conv(1, 3, pad=pad).draft  # type: ignore[arg-type]
    conv = draft.done(draft.image.mean()).nodes[1].op
    assert isinstance(conv, Conv)
    assert conv.pad == resolved


@pytest.mark.parametrize(
    ("draw", "told"),
    [
        (lambda x: x.conv(0, 3, exact=True), "test: Conv after 'image': out must be positive"),
        (lambda x: x.conv(4, 3, stride=0), "stride must be positive"),
        (lambda x: x.conv(4, 3, pad=-1), "padding must not be negative"),
        (lambda x: x.max_pool(2, 2, pad=2), "leaves windows of"),
        (lambda x: x.mean().logits(0), "test: Dense after 'mean1': out must be positive"),
        (lambda x: x.dropout(1.0), "must be in"),
        (lambda x: x.lrn(0, 1e-4, 0.75), "radius must be positive"),
        (lambda x: x.widen(-1, 0), "cannot widen"),
        (lambda x: x.channel_norm(0.0), "eps must be positive"),
        (lambda x: x.shuffle(0), "groups must be positive"),
        (lambda x: x.squeeze_excite(0, "relu", "sigmoid"), "out must be positive"),
        (lambda x: x.mean().conv(4, 3, pad="same"), "an image is needed after 'mean1'"),
        (lambda x: x.mean().max_pool(2, 2, ceil=True), "an image is needed after 'mean1'"),
        (lambda x: x.conv(4, 30), "test: node 'conv1' .Conv.: a 30x30 window does not fit"),
    ],
)
def test_a_draft_refuses_at_once_and_names_the_place(draw: object, told: str) -> None:
    with pytest.raises(BadBlueprint, match=told):
        draw(image(9, 9))  # type: ignore[operator]


def test_a_width_scales_channels_but_not_classes() -> None:
    net = Draft("test", (8, 8, 3), width=0.25)
    x = net.image.conv(64, 3).mean().dense(100)
    assert (x.channels, x.logits(10).channels) == (25, 10)


def test_exact_keeps_the_channels_whatever_the_width() -> None:
    net = Draft("test", (8, 8, 3), width=0.25)
    assert net.image.conv(64, 3, exact=True).channels == 64


def test_a_width_leaves_at_least_one_channel_per_group() -> None:
    net = Draft("test", (8, 8, 3), width=0.001)
    assert (net.channels(64), net.channels(64, groups=4)) == (1, 4)


def test_scopes_come_before_names() -> None:
    net = Draft("test", (8, 8, 3))
    with net.scope("a"), net.scope("b"):
        x = net.image.conv(4, 3).conv(4, 3)
    assert (x.name, x.relu().name) == ("a/b/conv2", "act1")
