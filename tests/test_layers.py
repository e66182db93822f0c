"""The layers of the code: who may import whom."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "convdyno"
EVERYWHERE = {"files", "terminal"}
"""What stands below all layers: files, and text on the screen."""
BACKENDS = {"torch", "jax", "tensorflow"}
"""What Keras runs on."""
CONTRACT = {"engines.contract", "engines.cpu", "blueprint", "errors"}
DEVICE = {"engines.contract", "engines.cpu", "engines.devices", "errors"}
MAY_IMPORT = {
    "errors": set(),
    "files": set(),
    "rendezvous": set(),
    "terminal": set(),
    "blueprint": {"errors"},
    "zoo": {"blueprint", "errors"},
    "trial": {"errors"},
    "results": {"errors", "trial"},
    "stats": {"errors", "results"},
    "report": {"errors", "stats", "results", "trial"},
    "data": {"errors", "trial"},
    "engines": {"blueprint", "trial", "errors"},
    "engines.frameworks": set(),
    **{f"engines.frameworks.{name}": DEVICE for name in BACKENDS},
    **{f"engines.{name}": CONTRACT | {f"engines.frameworks.{name}"} for name in BACKENDS},
    "engines.keras": CONTRACT | {f"engines.frameworks.{name}" for name in BACKENDS},
    "run": {
        "engines.contract", "engines.registry", "blueprint", "data", "zoo", "results", "stats",
        "trial", "rendezvous", "errors",
    },
    "launch": {"trial", "results", "rendezvous", "errors"},
    "stage": {"launch", "results", "stats", "trial", "errors"},
    "cli": {
        "blueprint", "zoo", "trial", "data", "engines.registry", "run", "launch", "stage",
        "results", "stats", "report", "errors",
    },
    "api": {"cli", "results", "report", "trial", "errors"},
}  # fmt: skip
FRAMEWORKS = {"torch", "jax", "tensorflow", "keras", "flax"}
FILES = sorted(ROOT.rglob("*.py"))


def layer_of(module: str) -> str:
    parts = module.split(".")
    if parts[0] != "engines":
        return parts[0]
    deepest = 3 if parts[1:2] == ["frameworks"] else 2
    rooms = [part for n, part in enumerate(parts) if ROOT.joinpath(*parts[: n + 1]).is_dir()]
    return ".".join(rooms[:deepest])


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_file_imports_only_what_its_layer_may(path: Path) -> None:
    layer = layer_of(module_of(path))
    if layer in ("__init__", "__main__"):
        return
    for name in imports(path):
        if not name.startswith("convdyno.") or name == "convdyno.__version__":
            continue
        target = name.removeprefix("convdyno.")
        allowed = MAY_IMPORT[layer] | EVERYWHERE
        assert layer_of(target) == layer or any(
            target == a or target.startswith(a + ".") for a in allowed
        ), f"{layer} may not import {target}"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_framework_is_imported_by_its_own_engine_alone(path: Path) -> None:
    layer = layer_of(module_of(path))
    own = {layer.rpartition(".")[2]} if layer.startswith("engines.") else set()
    if own == {"keras"}:
        own |= BACKENDS
    roots = {name.partition(".")[0] for name in imports(path)}
    assert not roots & (FRAMEWORKS - own)
