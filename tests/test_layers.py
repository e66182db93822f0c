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
DEVICE = {"engines.contract", "engines.devices", "machine", "errors"}
MAY_IMPORT = {
    "errors": set(),
    "files": set(),
    "rendezvous": set(),
    "terminal": set(),
    "blueprint": {"errors"},
    "zoo": {"blueprint", "errors"},
    "trial": {"errors"},
    "machine": set(),
    "store": {"errors", "trial", "machine"},
    "stats": {"store"},
    "report": {"errors", "stats", "store", "machine", "trial"},
    "data": {"errors", "machine"},
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
    "api": {"app", "errors"},
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
IMPORTERS = {
    "import_module", "__import__", "spec_from_file_location", "run_module", "run_path",
    "resolve_name", "exec_module", "sys.modules",
}  # fmt: skip
"""Names by which code is imported or found at run time."""
STARTED = {
    "launch.preflight": {"run.host_facts"},
    "launch.ssh": {"run.worker", "launch.remote_supervisor"},
    "launch.transport": {"run.worker"},
}
"""Who starts which of our modules in a process of its own, by its name."""
PROTOCOLS = {"engines.contract", "engines.keras.backend", "data.source", "data.convert",
             "data.detect", "launch.launcher", "launch.transport"}  # fmt: skip
"""The files that say what several classes of their own layer, or of users, have in common."""
CALLED_BACK = {
    "store.cell_locks": "says who holds a cell",
    "store.index": "figures of a record, which stats derives, are kept beside its name",
    "store.where": "a table of its own functions",
    "report.cell": "a key to group by",
    "report.charts": "a script that is made meanwhile",
    "report.columns": "the table of columns",
    "report.comparisons": "which pairs are one family",
    "report.figures_roofline": "activations of a network, which only the zoo can count",
    "report.format": "how a figure is written",
    "report.legacy": "a table of its own functions",
    "report.page": "a script that is made meanwhile",
    "report.uncertain": "how a figure is written",
}
"""What the layers of figures are given to call, and for what: nothing of a layer above them."""
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
    """What a file imports, and every text in it that names one of our modules."""
    started = {f"convdyno.{name}" for name in STARTED.get(module_of(path), ())}
    found = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are written in full"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = re.findall(r"^convdyno(?:\.[a-z0-9_]+)+$", node.value)
            found += [name for name in named if name not in started]
    return found


@cache
def dynamic(path: Path) -> set[str]:
    """What a file imports by name with."""
    return names_in(path) & IMPORTERS


@cache
def names_in(path: Path) -> set[str]:
    """Every name of a file, also of what it imports under another."""
    names = set()
    for node in nodes_of(path):
        match node:
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
                names.add("sys.modules")
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                names.add(name.rpartition(".")[2])
    return names


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
    assert "Protocol" not in names_in(path) or module_of(path) in PROTOCOLS


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_layer_of_figures_is_given_nothing_of_another_to_call(path: Path) -> None:
    if layer_of(module_of(path)) in ("store", "stats", "report"):
        assert "Callable" not in names_in(path) or module_of(path) in CALLED_BACK


def test_the_tables_allow_nothing_that_is_not_used() -> None:
    modules = {module_of(path): path for path in FILES}
    used: dict[str, set[str]] = {layer: set() for layer in MAY_IMPORT}
    for module, path in modules.items():
        if (layer := layer_of(module)) in used:
            names = {name.removeprefix("convdyno.") for name in imports(path)}
            used[layer] |= {
                allowed
                for allowed in MAY_IMPORT[layer]
                if any(name == allowed or name.startswith(allowed + ".") for name in names)
            }
    unused = {layer: may - used[layer] for layer, may in MAY_IMPORT.items() if may - used[layer]}
    assert unused == {}
    assert {name for name in DYNAMIC if not dynamic(modules[name])} == set()
    assert {name for name in PROTOCOLS if "Protocol" not in names_in(modules[name])} == set()
    assert {name for name in CALLED_BACK if "Callable" not in names_in(modules[name])} == set()


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
