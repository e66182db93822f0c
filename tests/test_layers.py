"""The layers of the code: who may import whom."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "convdyno"
EVERYWHERE = {"files", "terminal"}
"""What stands below all layers: files, and text on the screen."""
BACKENDS = {"torch", "jax", "tensorflow"}
"""What Keras runs on."""
CONTRACT = {"engines.contract", "engines.cpu", "blueprint", "errors"}
DEVICE = {"engines.contract", "engines.cpu", "engines.devices", "machine", "errors"}
MAY_IMPORT = {
    "errors": set(),
    "files": set(),
    "rendezvous": set(),
    "terminal": set(),
    "blueprint": {"errors"},
    "zoo": {"blueprint", "errors"},
    "trial": {"errors"},
    "machine": {"errors"},
    "store": {"errors", "trial", "machine"},
    "stats": {"errors", "store"},
    "report": {"errors", "stats", "store", "machine", "trial"},
    "data": {"errors", "trial", "machine"},
    "engines": {"blueprint", "trial", "machine", "errors"},
    "engines.frameworks": set(),
    **{f"engines.frameworks.{name}": DEVICE for name in BACKENDS},
    **{f"engines.{name}": CONTRACT | {f"engines.frameworks.{name}"} for name in BACKENDS},
    "engines.keras": CONTRACT | {f"engines.frameworks.{name}" for name in BACKENDS},
    "run": {
        "engines.contract", "engines.registry", "blueprint", "data", "zoo", "store", "stats",
        "trial", "machine", "rendezvous", "errors",
    },
    "launch": {"trial", "store", "machine", "rendezvous", "errors"},
    "stage": {"launch", "store", "machine", "stats", "trial", "errors"},
    "app": {
        "blueprint", "zoo", "trial", "data", "engines.registry", "run", "launch", "stage",
        "store", "machine", "stats", "report", "errors",
    },
    "cli": {"app", "report", "trial", "errors"},
    "api": {"app", "report", "trial", "errors"},
}  # fmt: skip
ALSO = {"engines.registry": {f"engines.{name}" for name in (*BACKENDS, "keras")}}
"""The one file that knows the engines; each is imported when it is asked for."""
DYNAMIC = {
    "__init__": "its own names, when they are first used",
    "app": "its own names, when they are first used",
    "data.optional_import": "packages that need not be installed",
    "engines.registry": "the one engine that was asked for",
    "run.energy": "packages that need not be installed",
    "zoo.foreign.h5": "packages that need not be installed",
    "zoo.registry": "the families, and networks of the user's own",
}
"""Who may import by a name that is known only as it runs, and what."""
IMPORTERS = {"import_module", "__import__", "spec_from_file_location", "run_module", "run_path"}
FRAMEWORKS = {"torch", "jax", "tensorflow", "keras", "flax"}
FILES = sorted(ROOT.rglob("*.py"))


def layer_of(module: str) -> str:
    parts = module.split(".")
    if parts[0] != "engines":
        return parts[0]
    deepest = 3 if parts[1:2] == ["frameworks"] else 2
    rooms = [part for n, part in enumerate(parts) if ROOT.joinpath(*parts[: n + 1]).is_dir()]
    return ".".join(rooms[:deepest])


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Everything in a file."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path: Path) -> list[str]:
    """What a file imports; in a file that imports by name, every text that names one of ours."""
    texts = module_of(path) in DYNAMIC or bool(dynamic(path))
    found = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are written in full"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif texts and isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += re.findall(r"^convdyno(?:\.[a-z0-9_]+)+$", node.value)
    return found


@cache
def dynamic(path: Path) -> set[str]:
    """What a file imports by name with."""
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in nodes_of(path)}
    return names & IMPORTERS


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
        allowed = MAY_IMPORT[layer] | EVERYWHERE | ALSO.get(module_of(path), set())
        assert layer_of(target) == layer or any(
            target == a or target.startswith(a + ".") for a in allowed
        ), f"{layer} may not import {target}"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_only_few_files_import_by_name(path: Path) -> None:
    assert not dynamic(path) or module_of(path) in DYNAMIC


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_protocol_copies_no_class_of_a_layer_that_may_not_be_imported(path: Path) -> None:
    """Those that hold data and figures, or use them, take the classes themselves."""
    if layer_of(module_of(path)) in ("store", "stats", "report", "app", "cli", "api"):
        assert "typing.Protocol" not in imports(path)


@pytest.mark.parametrize("path", sorted((ROOT / "app").rglob("*.py")), ids=module_of)
def test_the_application_neither_prints_nor_ends_nor_reads_the_command_line(path: Path) -> None:
    roots = {name.partition(".")[0] for name in imports(path)}
    assert not roots & {"typer", "click", "rich"}
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            where = f"{node.value.id}.{node.attr}"
            assert where not in ("sys.argv", "sys.exit", "sys.stdout", "sys.stderr", "os._exit")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("print", "exit", "quit", "input")


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_framework_is_imported_by_its_own_engine_alone(path: Path) -> None:
    layer = layer_of(module_of(path))
    own = {layer.rpartition(".")[2]} if layer.startswith("engines.") else set()
    if own == {"keras"}:
        own |= BACKENDS
    roots = {name.partition(".")[0] for name in imports(path)}
    assert not roots & (FRAMEWORKS - own)
