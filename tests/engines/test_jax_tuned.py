"""The tuned forms of JAX compute what the native ones compute, for every network of the zoo."""

import jax
import numpy as np
import pytest
from jax import lax
from jax import numpy as jnp
from jax_sessions import open_session
from miniatures import MINIATURES, host_batch, lively_weights, plain, residual

from convdyno.blueprint.ops import Conv, Norm, Pool
from convdyno.engines import cpu, reference
from convdyno.engines.contract import normalise
from convdyno.engines.jax import lower, tuned
from convdyno.errors import Refused
from convdyno.zoo.registry import build, networks

RANDOM = np.random.default_rng(0)
MANY = tuned.MANY_CHANNELS


def zoo_ops():
    """Each distinct convolution and pool, with no more channels than keep it in its class."""
    convs, pools = {}, set()
    for name in networks():
        blueprint = build(name)
        for node in blueprint.nodes:
            if isinstance(node.op, Pool) and node.op.kind == "max":
                pools.add(node.op)
            if isinstance(node.op, Conv):
                op, channels = node.op, blueprint.shapes_in(node)[0][2]
                kind = tuned.classify(op, channels)
                groups = min(op.groups, 4)
                into = {"window": MANY + 2, "grouped": 2 * groups, "thin": min(channels, 5)}.get(
                    kind, 9
                )
                out = {"window": MANY + 1, "grouped": 3 * groups}.get(
                    kind, 7 if op.out > channels else 6
                )
                small = Conv(out, op.kernel, op.stride, op.pad, groups)
                assert tuned.classify(small, into) == kind
                convs[small, into] = kind
    return convs, sorted(pools, key=str)


CONVS, POOLS = zoo_ops()


def policy(dtype):
    return lower.Policy(
        dtype=dtype,
        between=jnp.float32,
        precision=lax.Precision.HIGHEST,
        conv=tuned.conv,
        norm=tuned.norm,
        max_pool=tuned.max_pool,
    )


def random(*shape, dtype=jnp.float32):
    return jnp.asarray(RANDOM.standard_normal(shape), dtype)


def assert_close(found, expected, tolerance):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert np.abs(found - expected).max() <= tolerance * max(np.abs(expected).max(), 1e-6)


def value_and_slopes(function):
    """(the values, a slope) -> (the value, the gradients by the values along that slope)."""

    def both(values, slope):
        value, back = jax.vjp(function, *values)
        return value, back(slope.astype(value.dtype))

    return jax.jit(both)


def tuned_convs():
    """What has a form of its own, and one of each class that has none."""
    for name in ("float32", "bfloat16"):
        last = {kind: case for case, kind in CONVS.items() if (name, kind) not in tuned.FORMS}
        own = [case for case, kind in CONVS.items() if (name, kind) in tuned.FORMS]
        yield from (pytest.param(*case, name, id=f"{name} {case}") for case in own)
        yield from (pytest.param(*case, name, id=f"{name} {kind}") for kind, case in last.items())


@pytest.mark.parametrize(("op", "channels", "type_name"), list(tuned_convs()))
def test_every_convolution_of_the_zoo(op, channels, type_name):
    dtype, images = jnp.dtype(type_name), 2
    size = op.kernel[0] + 3 * op.stride[0] + 1, op.kernel[1] + 2 * op.stride[1]
    x = random(images, *size, channels, dtype=dtype)
    kernel = random(*op.kernel, channels // op.groups, op.out, dtype=dtype)
    slope = random(images, *op.shape((*size, channels)), dtype=dtype)
    rule = policy(dtype)
    y, slopes = value_and_slopes(lambda x, k: tuned.conv(rule, op, x, k))((x, kernel), slope)
    exact = [x.astype(jnp.float32), kernel.astype(jnp.float32)]
    expected, expected_slopes = value_and_slopes(
        lambda x, k: lower.native_conv(policy(jnp.float32), op, x, k)
    )(exact, slope.astype(jnp.float32))
    assert y.dtype == jnp.float32
    assert_close(y, expected, 1e-5)
    for found, want in zip(slopes, expected_slopes, strict=True):
        # A gradient is handed back in the type of what it belongs to.
        assert_close(found, want, 1e-5 if dtype == jnp.float32 else 2**-8)


def test_the_zoo_has_every_class_and_bf16_takes_odd_numbers_of_pixels():
    assert set(CONVS.values()) == {"pointwise", "window", "thin", "grouped"}
    rule, op = policy(jnp.bfloat16), Conv(MANY, (3, 3), pad=(1, 1, 1, 1))
    x, kernel = (
        random(1, 5, 7, MANY, dtype=jnp.bfloat16),
        random(3, 3, MANY, MANY, dtype=jnp.bfloat16),
    )
    slope = random(1, 5, 7, MANY, dtype=jnp.bfloat16)
    run = value_and_slopes(lambda x, k: tuned.conv(rule, op, x, k))
    native = value_and_slopes(lambda x, k: tuned._native(rule, op, x, k))
    for found, want in zip(
        jax.tree.leaves(run((x, kernel), slope)),
        jax.tree.leaves(native((x, kernel), slope)),
        strict=True,
    ):
        assert_close(found, want, 2**-8)


def test_a_form_can_be_chosen_for_one_gradient_alone(monkeypatch):
    forms = tuned.Forms("native", "native", "products")
    monkeypatch.setitem(tuned.FORMS, ("float32", "window"), forms)
    rule, op = policy(jnp.float32), Conv(MANY, (3, 3), (2, 2), (1, 1, 1, 1))
    values, slope = (random(2, 7, 7, MANY), random(3, 3, MANY, MANY)), random(2, 4, 4, MANY)
    found = value_and_slopes(lambda x, k: tuned.conv(rule, op, x, k))(values, slope)
    expected = value_and_slopes(lambda x, k: lower.native_conv(rule, op, x, k))(values, slope)
    jax.tree.map(lambda a, b: assert_close(a, b, 1e-5), found, expected)


@pytest.mark.parametrize("op", [*POOLS, Pool("max", (6, 6), (5, 5), (2, 3, 1, 0))], ids=str)
def test_every_maximum_of_the_zoo_with_equal_values_in_its_windows(op):
    x = jnp.round(jax.nn.relu(random(2, 11, 9, 3)) * 2)
    slope = random(2, *op.shape((11, 9, 3)))
    found = value_and_slopes(lambda x: tuned.max_pool(op, x))([x], slope)
    expected = value_and_slopes(lambda x: lower.native_max_pool(op, x))([x], slope)
    jax.tree.map(lambda a, b: assert_close(a, b, 1e-6), found, expected)


@pytest.mark.parametrize("shape", [(4, 5, 6, 3), (8, 3)])
def test_batch_norm(shape):
    values = (random(*shape) + 3, random(3), random(3))

    def only_values(form):
        return lambda *values: form(Norm(eps=1e-3), *values)[0]

    slope = random(*shape)
    found = value_and_slopes(only_values(tuned.norm))(values, slope)
    expected = value_and_slopes(only_values(lower.native_norm))(values, slope)
    jax.tree.map(lambda a, b: assert_close(a, b, 1e-5), found, expected)


@pytest.mark.parametrize(
    ("name", "precision"),
    [("residual", "fp32"), ("hanging_pools", "fp32"), ("grouped", "fp32"), ("residual", "bf16")],
)
def test_a_network_is_the_references(name, precision):
    blueprint = MINIATURES[name]()
    weights, (images, labels) = lively_weights(blueprint), host_batch(blueprint)
    session = open_session(blueprint, weights, kernels="tuned", precision=precision)
    batch = session.place(images, labels)
    tolerance = 1e-5 if precision == "fp32" else 0.05
    assert_close(
        session.logits(batch), reference.logits(blueprint, weights, normalise(images)), tolerance
    )
    session.train_step(batch)
    expected = reference.loss(blueprint, weights, normalise(images), labels)
    assert session.loss() == pytest.approx(expected, rel=tolerance)
    assert session.settings.flags["kernels"] == "tuned"


def test_training_goes_the_same_way():
    native, fast = open_session(residual()), open_session(residual(), kernels="tuned")
    batch = native.place(*host_batch(residual()))
    for session in (native, fast):
        for _ in range(5):
            session.train_step(batch)
    expected = native.weights()
    for name, found in fast.weights().items():
        assert_close(found, expected[name], 1e-4)


def test_there_are_none_in_fp16():
    with pytest.raises(Refused, match=r"tuned kernels .* for fp32 and bf16"):
        open_session(plain(), kernels="tuned", precision="fp16")


def test_emulated_bf16_is_a_warning(monkeypatch):
    for features, expected in (("avx2 avx512_bf16", 0), ("avx2", 1)):
        monkeypatch.setattr(cpu, "features", lambda text=features: set(text.split()))
        session = open_session(plain(), kernels="tuned", precision="bf16", mode="infer")
        assert len([w for w in session.settings.warnings if "bf16 is emulated" in w]) == expected
