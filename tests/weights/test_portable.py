"""Files of weights: the same arrays come back, and a bad file is one sentence."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from convdyno import __version__
from convdyno.blueprint.draft import Draft
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.weight_file import load_weights, read_header, save_weights
from convdyno.blueprint.weights import Weights, lively_weights
from convdyno.engines import registry
from convdyno.engines.contract import Trial
from convdyno.errors import BadWeights, UsageError


def tiny(classes: int = 3) -> Blueprint:
    net = Draft("tiny", image=(8, 8, 3))
    return net.image.conv_norm_relu(4, 3).conv(2, 3, bias=True).flatten().logits(classes).done()


TINY = tiny()
WEIGHTS = lively_weights(TINY)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.safetensors"
    save_weights(path, TINY, WEIGHTS, note="a test")
    return path


def parts(path: Path) -> tuple[dict[str, Any], bytes]:
    """The header and the data of a file."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def write(path: Path, header: Any, data: bytes) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_weights_come_back_bit_for_bit(good: Path) -> None:
    back = load_weights(good, TINY)
    assert list(back) == list(TINY.weights)
    for name, array in back.items():
        assert array.dtype == np.float32
        assert array.tobytes() == WEIGHTS[name].tobytes()


def test_the_header_says_how_to_build_the_network(good: Path) -> None:
    found = read_header(good).origin()
    assert (found.network, found.digest) == ("tiny", TINY.digest)
    assert (found.image_size, found.classes, found.width) == ((8, 8), 3, 1.0)
    assert (found.version, found.note, found.auxiliary) == (__version__, "a test", False)


def test_the_torch_engine_answers_the_same_with_a_file(good: Path) -> None:
    trial = Trial(network="tiny", engine="torch", mode="infer", batch=2, device="cpu", threads=1)
    images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)

    def logits(weights: Weights) -> bytes:
        session = registry.load("torch").open(TINY, trial, weights)
        return session.logits(session.place(images, np.zeros(2, np.int64))).tobytes()

    assert logits(load_weights(good, TINY)) == logits(WEIGHTS)


def test_what_torch_trained_comes_back_from_a_file(tmp_path: Path) -> None:
    trial = Trial(network="tiny", engine="torch", batch=4, device="cpu", threads=1)
    session = registry.load("torch").open(TINY, trial, WEIGHTS)
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), np.uint8)
    session.train_step(session.place(images, np.array([0, 1, 2, 0])))
    save_weights(tmp_path / "t.safetensors", TINY, trained := session.weights())
    back = load_weights(tmp_path / "t.safetensors", TINY)
    assert all(np.array_equal(back[name], trained[name]) for name in back)


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_half_precision_is_widened(good: Path, tmp_path: Path, dtype: str) -> None:
    header, _ = parts(good)
    words, entries, data = header["__metadata__"], {}, b""
    expected = {}
    for name, array in WEIGHTS.items():
        if dtype == "F16":
            half = array.astype(np.float16)
            expected[name] = half.astype(np.float32)
        else:
            half = (array.view(np.uint32) >> 16).astype(np.uint16)
            expected[name] = (half.astype(np.uint32) << 16).view(np.float32)
        offsets = [len(data), len(data) + half.nbytes]
        entries[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": offsets}
        data += half.tobytes()
    path = write(tmp_path / "half.safetensors", {"__metadata__": words, **entries}, data)
    back = load_weights(path, TINY)
    for name, array in back.items():
        assert array.dtype == np.float32
        assert np.array_equal(array, expected[name])


def test_a_file_is_replaced_whole_or_not_at_all(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = good.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(BadWeights, match="cannot be written: No space left"):
        save_weights(good, TINY, WEIGHTS)
    assert good.read_bytes() == before
    assert [p.name for p in good.parent.iterdir()] == [good.name]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda w: w.pop("logits/bias"), "cannot be saved without its weight 'logits/bias'"),
        (lambda w: w.update(more=w["logits/bias"]), "tiny has no weight 'more'"),
        (lambda w: w.update({"logits/bias": np.zeros(4)}), r"has the shape \(4,\), not \(3,\)"),
        (lambda w: w.update({"logits/bias": np.full(3, np.nan)}), "not finite numbers"),
    ],
    ids=["missing", "more", "shape", "nan"],
)
def test_only_a_networks_own_weights_are_saved(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    weights = dict(WEIGHTS)
    change(weights)
    with pytest.raises(BadWeights, match=sentence):
        save_weights(tmp_path / "w.safetensors", TINY, weights)
    assert not list(tmp_path.iterdir())


def refused(path: Path, sentence: str, blueprint: Blueprint = TINY) -> None:
    with pytest.raises(BadWeights, match=sentence) as caught:
        load_weights(path, blueprint)
    assert isinstance(caught.value, UsageError)
    assert "\n" not in str(caught.value)


def test_another_networks_weights_are_refused(good: Path) -> None:
    refused(good, r"has the weights of tiny \(digest .*not those of tiny", tiny(4))


def test_no_file_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    refused(tmp_path / "none", "cannot be read: No such file")
    refused(tmp_path, "is a folder")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "is a device or pipe")


def test_an_unreadable_file_is_refused(good: Path) -> None:
    good.chmod(0)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)  # root reads everything
    try:
        refused(good, "cannot be read: Permission denied")
    finally:
        os.seteuid(me)


def test_what_is_not_safetensors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    for content in (b"", b"PK\x03\x04", b"\x80\x02}q\x00.", b"x" * 5000):
        path.write_bytes(content)
        refused(path, "is not a safetensors file")


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 100_000_001, 5000])
def test_a_header_that_lies_about_its_length_is_refused(good: Path, length: int) -> None:
    good.write_bytes(struct.pack("<Q", length) + good.read_bytes()[8:])
    refused(good, f"claims a header of {length} bytes")


def test_a_cut_or_longer_file_is_refused(good: Path) -> None:
    content = good.read_bytes()
    good.write_bytes(content[:-1])
    refused(good, "cut off, or something was appended")
    good.write_bytes(content + b"\0")
    refused(good, "cut off, or something was appended")


def test_a_header_that_is_no_header_is_refused(good: Path) -> None:
    header, data = parts(good)
    refused(write(good, b"[" * 100_000, data), "header is no JSON")
    refused(write(good, b"[1, 2]", data), "header is no JSON object")
    refused(write(good, b"\xff\xfe", data), "header is no JSON")
    refused(write(good, b'{"a": {}, "a": {}}', data), "a name comes twice")
    refused(write(good, header | {"__metadata__": {"a": 1}}, data), "must be texts by name")
    refused(write(good, header | {"__metadata__": [1]}, data), "must be texts by name")


def change_entry(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: header["logits/bias"].update(values)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (change_entry(shape=[3, 1]), r"in the shape \(3, 1\), not \(3,\)"),
        (change_entry(shape=[2**62, 2**62]), "which is not what F32 of the shape"),
        (change_entry(shape=[-3]), "not a known dtype, a shape and two offsets"),
        (change_entry(shape=[True] * 3), "not a known dtype, a shape and two offsets"),
        (change_entry(dtype="I32"), "has 'logits/bias' as I32"),
        (change_entry(dtype="Q9"), "not a known dtype"),
        (change_entry(data_offsets=[0, 12]), "begins at|cut off"),
        (change_entry(data_offsets=[10**30, 10**30 + 12]), "not a known dtype"),
        (
            lambda h: h.update({"logits/bia": h.pop("logits/bias")}),
            "lacks the weight 'logits/bias'",
        ),
        (lambda h: h.update({"a\x1b[2J": h.pop("logits/bias")}), "unprintable"),
        (lambda h: h["__metadata__"].pop("digest"), "the header lacks 'digest'"),
        (lambda h: h["__metadata__"].update(digest="0" * 64), "not those of tiny"),
        (lambda h: h["__metadata__"].update(digest="x"), "no readable network"),
        (lambda h: h["__metadata__"].update(network="\x1b[2J"), "no readable network"),
        (lambda h: h["__metadata__"].update(convdyno_format="2"), "update convdyno"),
        (lambda h: h["__metadata__"].update(classes="many"), "is no number"),
        (lambda h: h["__metadata__"].update(width="nan"), "cannot be"),
        (lambda h: h["__metadata__"].update(image_size="8"), "is no number"),
        (lambda h: h.pop("__metadata__"), "no convdyno header"),
    ],
)
def test_a_wrong_header_is_refused(
    good: Path, change: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    header, data = parts(good)
    change(header)
    refused(write(good, header, data), sentence)


def resave(good: Path, **changes: Any) -> Path:
    words = parts(good)[0]["__metadata__"]
    save_file({**WEIGHTS, **changes}, good, words)
    return good


def test_wrong_arrays_are_refused(good: Path) -> None:
    refused(resave(good, extra=np.zeros(2, np.float32)), "'extra', which is no weight of tiny")
    for bad in (np.nan, np.inf, -np.inf):
        array = WEIGHTS["logits/bias"].copy()
        array[1] = bad
        refused(resave(good, **{"logits/bias": array}), "'logits/bias' has values that are not")
    array = WEIGHTS["norm1/variance"] - 2
    refused(resave(good, **{"norm1/variance": array}), "is a variance and has negative values")
    refused(resave(good, **{"logits/bias": np.zeros(3)}), "has 'logits/bias' as F64")


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_mutated_file_is_read_or_refused_and_nothing_else(
    good: Path, data: st.DataObject
) -> None:
    content = bytearray(good.read_bytes())
    (length,) = struct.unpack("<Q", content[:8])
    header_end = 8 + length
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, max(0, min(header_end + 50, len(content) - 1))))
        match data.draw(st.sampled_from(["set", "insert", "delete", "cut"])):
            case "set":
                content[place : place + 1] = [data.draw(st.integers(0, 255))]
            case "insert":
                content[place:place] = data.draw(st.binary(max_size=12))
            case "delete":
                del content[place : place + data.draw(st.integers(1, 12))]
            case "cut":
                del content[place:]
    path = good.with_name("mutated.safetensors")
    path.write_bytes(content)
    try:
        weights = load_weights(path, TINY)
    except BadWeights as wrong:
        assert "\n" not in str(wrong)
    else:
        assert {name: array.shape for name, array in weights.items()} == TINY.weights
        assert all(np.isfinite(array).all() for array in weights.values())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_header_of_any_json_is_read_or_refused(good: Path, data: st.DataObject) -> None:
    header, content = parts(good)
    for _ in range(data.draw(st.integers(1, 2))):
        name = data.draw(st.sampled_from(sorted(header)) | st.text(max_size=5))
        inner = header.get(name)
        if isinstance(inner, dict) and inner and data.draw(st.booleans()):
            inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(JSON)
        else:
            header[name] = data.draw(JSON)
    text = json.dumps(header).encode()
    path = write(good.with_name("mutated.safetensors"), text, content)
    try:
        load_weights(path, TINY)
    except BadWeights as wrong:
        assert "\n" not in str(wrong)
