"""Names and layouts of other libraries, and what is refused of them."""

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weights import Weights, lively_weights
from convdyno.errors import BadWeights, UsageError
from convdyno.run.foreign import read_foreign
from convdyno.zoo.foreign import LIBRARIES
from convdyno.zoo.foreign.convert import (
    classes_in,
    foreign_names,
    from_foreign,
    networks_of,
    recognise,
    to_foreign,
)
from convdyno.zoo.registry import build

EVERY = [(library, network) for library in LIBRARIES for network in networks_of(library)]


def small(network: str) -> Blueprint:
    """With few channels; the names do not depend on that."""
    return build(network, classes=10, width=0.05)


@pytest.fixture(scope="module")
def resnet() -> tuple[Blueprint, dict[str, Any]]:
    blueprint = small("resnet18")
    return blueprint, to_foreign(lively_weights(blueprint), blueprint, "torchvision")


def same(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


@pytest.mark.parametrize(("library", "network"), EVERY)
def test_every_weight_has_its_own_foreign_name(library: str, network: str) -> None:
    names = foreign_names(small(network), library)
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize(
    ("library", "network"), [pair for pair in EVERY if "1" not in pair[1] or "18" in pair[1]]
)
def test_there_and_back_changes_nothing(library: str, network: str) -> None:
    blueprint = small(network)
    weights = lively_weights(blueprint)
    assert same(from_foreign(to_foreign(weights, blueprint, library), blueprint, library), weights)


def test_auxiliary_heads_are_taken_over_or_left_out() -> None:
    whole = build("inception3-torchvision", classes=10, width=0.05, auxiliary=True)
    weights = lively_weights(whole)
    state = to_foreign(weights, whole, "torchvision")
    assert "AuxLogits.fc.weight" in state
    assert same(from_foreign(state, whole, "torchvision"), weights)
    trunk = whole.for_inference()
    assert from_foreign(state, trunk, "torchvision").keys() == trunk.weights.keys()


def test_prefixes_counters_and_double_precision_do_not_matter(resnet: Any) -> None:
    blueprint, state = resnet
    odd = {f"module.{name}": array.astype(np.float64) for name, array in state.items()}
    odd["module.bn1.num_batches_tracked"] = np.array(7)
    plain = from_foreign(state, blueprint, "torchvision")
    assert same(from_foreign(odd, blueprint, "torchvision"), plain)


def test_the_library_and_the_classes_are_seen_in_the_names() -> None:
    blueprint = small("vgg16")
    for library in LIBRARIES:
        state = to_foreign(lively_weights(blueprint), blueprint, library)
        assert recognise(state, blueprint) == library
        assert classes_in(state, build("vgg16", width=0.05), library) == 10


def test_keras_numbers_count_by_rank_from_anywhere() -> None:
    blueprint = small("inception3")
    weights = lively_weights(blueprint)
    state = to_foreign(weights, blueprint, "keras")
    shifted = {}
    for name, array in state.items():
        layer, _, variable = name.partition("/")
        kind, _, number = layer.rpartition("_")
        number = int(number) if number.isdigit() else None
        renamed = f"{kind}_{number + 90}" if number else layer
        shifted[f"{renamed}/{variable}"] = array
    assert same(from_foreign(shifted, blueprint, "keras"), weights)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s: s.pop("fc.bias"), "the file does not have .* there is no 'fc.bias'"),
        (lambda s: s.update(neck=s["fc.bias"]), "there is also 'neck'"),
        (lambda s: s.update({"fc.bias": np.zeros(11, "f")}), r"'fc.bias' has the shape \(11,\)"),
        (lambda s: s.update({"fc.weight": np.zeros((5, 5, 1, 1), "f")}), "does not make"),
        (lambda s: s.update({"fc.bias": np.zeros(10, int)}), "real numbers, not of int64"),
        (lambda s: s.update({"fc.bias": np.full(10, np.inf, "f")}), "not finite"),
        (lambda s: s.update({"fc.bias": np.full(10, 1e300)}), "not finite"),
        (lambda s: s.update({"bn1.running_var": -s["bn1.running_var"]}), "negative values"),
    ],
)
def test_what_does_not_fit_is_refused(resnet: Any, change: Any, sentence: str) -> None:
    blueprint, state = resnet
    changed = dict(state)
    change(changed)
    with pytest.raises(BadWeights, match=sentence):
        from_foreign(changed, blueprint, "torchvision")


def test_networks_that_a_library_lacks_are_refused() -> None:
    with pytest.raises(UsageError, match="can come from torchvision or timm"):
        foreign_names(small("resnet18"), "keras")
    with pytest.raises(UsageError, match="timm has no network that is lenet; timm has vgg11"):
        foreign_names(build("lenet"), "timm")
    with pytest.raises(UsageError, match="no weights of another library fit lenet"):
        recognise(["conv1.weight"], build("lenet"))


def scaled(factor: float) -> tuple[Blueprint, Weights, dict[str, Any]]:
    """timm's Inception-ResNet with another scale in its first batch norm, where ours has none."""
    blueprint = small("inception-resnet2-slim")
    weights = lively_weights(blueprint)
    state = to_foreign(weights, blueprint, "timm")
    state["conv2d_1a.bn.weight"] = state["conv2d_1a.bn.weight"] * np.float32(factor)
    return blueprint, weights, state


@pytest.mark.parametrize("factor", [0.01, 0.5, 1.0, 3.0])
def test_a_scale_that_the_zoo_lacks_is_folded_into_the_variance(factor: float) -> None:
    blueprint, weights, state = scaled(factor)
    new = from_foreign(state, blueprint, "timm")["stem/norm1/variance"].astype(np.float64)
    old = weights["stem/norm1/variance"].astype(np.float64)
    np.testing.assert_allclose(1 / np.sqrt(new + 1e-3), factor / np.sqrt(old + 1e-3), rtol=1e-5)


@pytest.mark.parametrize(
    ("factor", "sentence"), [(0, "not positive"), (-1, "not positive"), (1e5, "too large")]
)
def test_a_scale_that_cannot_be_folded_is_refused(factor: float, sentence: str) -> None:
    blueprint, _, state = scaled(factor)
    with pytest.raises(BadWeights, match=sentence):
        from_foreign(state, blueprint, "timm")


class Bomb:
    """Leaves a trace if it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.mark.slow
def test_torch_files_are_read_and_never_executed(tmp_path: Path) -> None:
    import torch

    good, bad, odd = tmp_path / "good.pth", tmp_path / "bad.pt", tmp_path / "odd.pt"
    tensors = {"a.weight": torch.ones(2, 3, dtype=torch.bfloat16), "a.count": torch.tensor(3)}
    torch.save({"epoch": 3, "state_dict": tensors}, good)
    arrays = read_foreign(good)
    assert list(arrays) == ["a.weight"]
    assert np.array_equal(arrays["a.weight"], np.ones((2, 3), np.float32))

    trace = tmp_path / "trace"
    bad.write_bytes(pickle.dumps({"a": Bomb(trace)}))
    with pytest.raises(BadWeights, match="code in a file is never run"):
        read_foreign(bad)
    torch.save({"a": Bomb(trace)}, bad)
    with pytest.raises(BadWeights, match="code in a file is never run"):
        read_foreign(bad)
    assert not trace.exists()

    torch.save({"a": torch.zeros(1).expand(10**12)}, odd)
    with pytest.raises(BadWeights, match="larger than what is stored"):
        read_foreign(odd)


@pytest.mark.parametrize("name", ["none.pth", "none.h5", "w.onnx", "."])
def test_files_of_no_use_are_refused_before_anything_is_started(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadWeights, match=r"does not exist|of no known kind"):
        read_foreign(tmp_path / name)


def test_broken_h5_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(200))
    with pytest.raises(BadWeights, match=r"w\.h5 cannot be read"):
        read_foreign(path)


def test_variables_as_keras_1_called_them_are_known(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "vgg.h5", "w") as file:
        file.attrs["layer_names"] = [b"block1_conv1", b"block1_pool"]
        group = file.create_group("block1_conv1")
        group.attrs["weight_names"] = [b"block1_conv1_W_1:0", b"block1_conv1_b_1:0"]
        group["block1_conv1_W_1:0"] = np.ones((3, 3, 3, 64), np.float32)
        group["block1_conv1_b_1:0"] = np.zeros(64, np.float32)
        file.create_group("block1_pool").attrs["weight_names"] = np.array([], "S1")
    found = read_foreign(tmp_path / "vgg.h5")
    assert {name: array.shape for name, array in found.items()} == {
        "block1_conv1/kernel": (3, 3, 3, 64),
        "block1_conv1/bias": (64,),
    }


def test_a_keras_file_without_the_layers_names_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w.weights.h5", "w") as file:
        file["layers/conv2d/vars/0"] = np.ones((3, 3, 3, 64), np.float32)
    with pytest.raises(BadWeights, match="does not have the layers' names"):
        read_foreign(tmp_path / "w.weights.h5")
