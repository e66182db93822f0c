"""Keras is imported on the backend that was asked for, and the user's own Keras is left alone."""

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

from convdyno.engines import registry
from convdyno.errors import NotInstalled

ENGINES = ["keras/torch", "keras/jax", "keras/tensorflow"]


def load_in_a_process(engine, home, **environment):
    code = f"from convdyno.engines import registry; print(registry.load({engine!r}).versions())"
    kept = {n: v for n, v in os.environ.items() if not n.startswith("KERAS")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {"HOME": str(home)} | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.parametrize(
    "engine",
    [
        "keras/jax",
        "tensorflow",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("keras/torch", "keras/tensorflow")),
    ],
)
def test_the_users_configuration_is_neither_written_nor_read(engine, tmp_path):
    done = load_in_a_process(engine, tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / ".keras").exists()

    (tmp_path / ".keras").mkdir()
    config = tmp_path / ".keras" / "keras.json"
    config.write_text(json.dumps({"backend": "abacus", "floatx": "float16"}))
    done = load_in_a_process(engine, tmp_path, KERAS_BACKEND="abacus")
    assert done.returncode == 0, done.stderr
    assert json.loads(config.read_text())["backend"] == "abacus"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_is_known_without_importing_it(engine):
    info = registry.check(engine)
    assert info.version == metadata.version("keras")
    assert info.precisions == ("fp32", "bf16", "fp16", "tf32")


@pytest.mark.parametrize("missing", ["keras", "torch"])
def test_both_parts_must_be_installed(missing, monkeypatch):
    version = metadata.version

    def absent(name):
        if name == missing:
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(registry.metadata, "version", absent)
    with pytest.raises(NotInstalled, match=r"pip install 'convdyno\[keras,torch\]'"):
        registry.check("keras/torch")
