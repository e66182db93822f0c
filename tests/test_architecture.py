"""The page about the architecture is true."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from layers import PAGE, layers, page_with_picture  # noqa: E402


def test_the_picture_of_the_layers_is_of_today() -> None:
    text = PAGE.read_text()
    assert page_with_picture(text) == text, "python tools/layers.py --write"


def test_every_layer_has_a_paragraph() -> None:
    text = PAGE.read_text()
    for layer in layers():
        assert f"**{layer}**" in text, layer


def test_every_file_that_the_page_names_is_there() -> None:
    words = PAGE.read_text().replace("(", " ").replace(")", " ").split("`")[1::2]
    for word in words:
        if word.endswith(".py") and "/" in word:
            assert any((ROOT / part / word).exists() for part in ("", "src/convdyno")), word
