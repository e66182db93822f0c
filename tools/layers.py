"""Draw the layers of src/convdyno from its imports; with `--write`, into ARCHITECTURE.md.

The picture stands in ARCHITECTURE.md between two marks; a test says when it is out of date.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "convdyno"
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- layers: made by tools/layers.py -->", "<!-- end of layers -->"
OUTSIDE = {"__init__", "__main__"}
"""Doors, not layers."""


def layer_of(module: str) -> str:
    """The folder of a module, or its own name if it stands at the top."""
    return module.split(".")[0]


def module_of(path: Path) -> str:
    """A file's dotted name below convdyno."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> set[str]:
    """The layers that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("convdyno.")}
    return found - OUTSIDE - {"__version__"}


def layers() -> dict[str, set[str]]:
    """Each layer and those that it imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        layer = layer_of(module_of(path))
        if layer not in OUTSIDE:
            found.setdefault(layer, set()).update(imported(path) - {layer})
    return found


def sizes() -> dict[str, tuple[int, int]]:
    """Modules and lines of each layer."""
    found: dict[str, tuple[int, int]] = {}
    for path in SOURCE.rglob("*.py"):
        layer = layer_of(module_of(path))
        modules, lines = found.get(layer, (0, 0))
        found[layer] = modules + 1, lines + len(path.read_text().splitlines())
    return found


def floors(graph: dict[str, set[str]]) -> list[list[str]]:
    """Layers from the top down: each stands above all that it imports."""
    height: dict[str, int] = {}

    def of(layer: str) -> int:
        if layer not in height:
            height[layer] = 1 + max((of(below) for below in graph.get(layer, ())), default=0)
        return height[layer]

    for layer in graph:
        of(layer)
    return [
        sorted(layer for layer in graph if height[layer] == floor)
        for floor in range(max(height.values()), 0, -1)
    ]


def picture() -> str:
    """Floors of layers as text, each with what it imports."""
    graph = layers()
    lines = ["```"]
    for floor in floors(graph):
        for layer in floor:
            below = ", ".join(sorted(graph[layer])) or "nothing of ours"
            lines.append(f"{layer:<11} {below}")
        lines.append("-" * 100)
    lines[-1] = "```"
    return "\n".join(lines)


def page_with_picture(text: str) -> str:
    """The page with the picture of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{picture()}\n{END}{after}"


def main() -> None:
    """Write the picture into the page, or print how large the layers are."""
    if "--write" in sys.argv:
        PAGE.write_text(page_with_picture(PAGE.read_text()))
        return
    for layer, (modules, lines) in sorted(sizes().items()):
        print(f"{layer:<11}{modules:>4} modules {lines:>6} lines")


if __name__ == "__main__":
    main()
