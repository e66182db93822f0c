"""Names: one word has one meaning, and a docstring says the noun."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "convdyno"
TREES = {path.relative_to(ROOT): ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}
FEWEST = 16
"""Characters of a docstring."""


def test_no_two_public_classes_have_one_name() -> None:
    places = defaultdict(list)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert twice == {}


def test_a_docstring_says_the_noun() -> None:
    """Also one below a field or a constant, where a unit or a format may be all there is."""
    short = [
        f"{path}:{node.lineno}: {text}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(text := node.value.value, str)
        and len(text) < FEWEST
        and text != "UTC, ISO 8601."
    ]
    assert short == []
