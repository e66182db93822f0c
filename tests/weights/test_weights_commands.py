"""The command `convdyno weights`, as a user types it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from schemas import keeps_to

from convdyno.blueprint.weight_file import load_weights
from convdyno.blueprint.weights import initial_weights
from convdyno.zoo.registry import build

SMALL = ("--classes", "10", "--width", "0.1", "--image-size", "64")


@pytest.fixture
def exported(convdyno: Any, tmp_path: Path) -> Path:
    done = convdyno("weights", "export", "resnet18", "a.safetensors", "--seed", "3", *SMALL)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("a.safetensors: resnet18 in canonical names, 102 tensors, ")
    return tmp_path / "a.safetensors"


def test_export_writes_the_weights_that_every_engine_starts_from(exported: Path) -> None:
    blueprint = build("resnet18", (64, 64), 10, 0.1)
    expected = initial_weights(blueprint, seed=3)
    found = load_weights(exported, blueprint)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_show_says_what_a_file_is(convdyno: Any, exported: Path) -> None:
    found = keeps_to("weights", convdyno("weights", "show", exported.name, "--json").json)
    assert (found["network"], found["form"], found["width"]) == ("resnet18", "canonical", 0.1)
    assert (found["classes"], found["image_size"]) == (10, "64x64")
    assert found["digest"] == build("resnet18", (64, 64), 10, 0.1).digest
    assert found["largest"][0]["shape"] == "3x3x51x51"
    text = convdyno("weights", "show", exported.name).out
    assert "resnet18: 64x64, 10 classes, width 0.1; canonical names" in text


def test_convert_there_and_back_changes_nothing(convdyno: Any, exported: Path) -> None:
    def convert(source: str, target: str, to: str) -> None:
        done = convdyno("weights", "convert", source, target, "--to", to, "--json")
        assert (done.code, done.err) == (0, "")
        assert keeps_to("weights", done.json)["form"] == to

    convert("a.safetensors", "t.safetensors", "torchvision")
    convert("t.safetensors", "b.safetensors", "canonical")
    blueprint = build("resnet18", (64, 64), 10, 0.1)
    before, after = (load_weights(exported.with_name(n), blueprint) for n in (
        "a.safetensors", "b.safetensors"
    ))  # fmt: skip
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.slow
def test_import_takes_over_a_torch_file(convdyno: Any, tmp_path: Path) -> None:
    import torch

    from convdyno.zoo.foreign.convert import to_foreign

    blueprint = build("resnet18", classes=7, width=0.1)
    weights = initial_weights(blueprint, 5)
    state = to_foreign(weights, blueprint, "torchvision")
    torch.save({n: torch.from_numpy(a) for n, a in state.items()}, tmp_path / "m.pth")
    done = convdyno(
        "weights", "import", "m.pth", "m.safetensors", "--network", "resnet18", "--width", "0.1"
    )
    assert (done.code, done.err) == (0, "")
    found = load_weights(tmp_path / "m.safetensors", blueprint)
    assert all(np.array_equal(found[name], weights[name]) for name in weights)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("import", "--help"),
        ("export", "resnet18", "x.safetensors", *SMALL),
        ("show", "x.safetensors"),
        ("import", "m.pth", "y.safetensors", "--network", "resnet18"),
    ],
)
def test_no_framework_enters_the_parent(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "m.pth").write_bytes(b"nothing")
    code = (
        "import sys\n"
        f"sys.argv = ['convdyno', 'weights', *{arguments!r}]\n"
        "from convdyno.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('modules:', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    modules = set(done.stdout.splitlines()[-1].split())
    assert not modules & {"torch", "keras", "tensorflow", "jax", "h5py"}
    assert "numpy" not in modules or "--help" not in arguments


BAD = [
    (("export", "resnet18", "a.safetensors"), "'a.safetensors' exists already; --force"),
    (("export", "resnet19", "b.safetensors"), "Did you mean 'resnet18'"),
    (("export", "resnet18", "b.bin"), "must end in .safetensors"),
    (("export", "resnet18", "none/b.safetensors"), "there is no folder 'none'"),
    (("export", "resnet18", "b.safetensors", "--seed", "-1"), "--seed must be a whole number"),
    (("export", "resnet18", "b.safetensors", "--width", "nan"), "--width must be a positive"),
    (("show", "none.safetensors"), "none.safetensors cannot be read: No such file"),
    (("show", "."), "is a folder"),
    (("convert", "a.safetensors", "b.safetensors", "--to", "timmy"), "Did you mean 'timm'?"),
    (("convert", "a.safetensors", "b.safetensors", "--to", "keras"), "come from torchvision"),
    (("convert", "a.safetensors", "a.safetensors", "--to", "timm"), "exists already"),
    (
        ("import", "a.safetensors", "b.safetensors", "--network", "resnet18"),
        "a.safetensors has convdyno's own weights already",
    ),
    (
        ("import", "a.safetensors", "b.safetensors", "--network", "lenet"),
        "no weights of another library fit lenet",
    ),
    (
        ("import", "none.pth", "b.safetensors", "--network", "resnet18", "--from", "timm"),
        "none.pth does not exist",
    ),
    (
        ("import", "a.safetensors", "b.safetensors", "--network", "resnet18", "--from", "keras"),
        "keras has no network that is resnet18",
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from convdyno.blueprint.weight_file import save_weights

    path = tmp_path_factory.mktemp("weights")
    blueprint = build("resnet18", classes=10, width=0.05)
    save_weights(path / "a.safetensors", blueprint, initial_weights(blueprint), width=0.05)
    return path


@pytest.mark.parametrize(("arguments", "sentence"), BAD)
def test_bad_input_is_one_sentence_and_touches_nothing(
    arguments: tuple[str, ...],
    sentence: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    from convdyno.cli.main import main

    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["convdyno", "weights", *arguments])
    before = (folder / "a.safetensors").read_bytes()
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert sentence in said.err
    assert (said.err.count("\n"), said.out) == (1, "")
    assert [p.name for p in folder.iterdir()] == ["a.safetensors"]
    assert (folder / "a.safetensors").read_bytes() == before
