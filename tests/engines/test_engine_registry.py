"""Engines by name, and nothing imported before it is needed."""

import subprocess
import sys
from importlib import metadata

import pytest

from convdyno.engines import registry
from convdyno.errors import NotInstalled, UnknownName


@pytest.fixture
def without_torch(monkeypatch):
    version = metadata.version

    def absent(name):
        if name == "torch":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(registry.metadata, "version", absent)


def test_versions_are_told_without_importing_a_framework():
    script = (
        "import sys; from convdyno.engines import registry; found = registry.engines();"
        "assert found['torch'].version; assert registry.best_installed() == 'torch';"
        "bad = {'torch', 'numpy', 'jax', 'tensorflow', 'keras'} & set(sys.modules);"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=600)


def test_every_engine_says_what_it_is():
    found = registry.engines()
    frameworks = ["torch", "jax", "tensorflow", "keras/torch", "keras/jax", "keras/tensorflow"]
    assert list(found)[: len(frameworks)] == frameworks
    assert found.keys() >= {"reference", "clockwork"}
    assert registry.installed_frameworks() == frameworks
    assert found["torch"].version == metadata.version("torch")
    assert found["torch"].precisions == ("fp32", "bf16", "fp16", "tf32")
    assert found["reference"].installed


@pytest.mark.parametrize("name", ["torch", "reference", "clockwork"])
def test_loading_gives_an_engine(name):
    assert isinstance(registry.load(name).versions(), dict)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownName, match=r"no engine is called 'torhc'\. Did you mean 'torch'"):
        registry.load("torhc")


def test_what_is_not_installed_names_the_command(without_torch):
    assert not registry.engines()["torch"].installed
    assert registry.engines()["torch"].version is None
    with pytest.raises(NotInstalled, match=r"pip install 'convdyno\[torch\]'"):
        registry.load("torch")


def test_without_a_framework_there_is_no_best_one(monkeypatch):
    def nothing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", nothing)
    with pytest.raises(NotInstalled, match=r"no framework is installed: pip install 'convdyno\["):
        registry.best_installed()


def test_what_is_installed_but_broken_says_why(monkeypatch):
    def broken(name):
        raise ImportError("libcudart.so.13 is missing")

    monkeypatch.setattr(registry.importlib, "import_module", broken)
    with pytest.raises(NotInstalled, match=r"cannot be imported \(libcudart"):
        registry.load("torch")
