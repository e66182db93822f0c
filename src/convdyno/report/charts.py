"""Charts: one Vega-Lite description gives the interactive page, the SVG and the PNG.

A description is plain data. What a chart shows is its `values`; a value that belongs to cells says
to which, so that the page can leave out what is filtered away.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from convdyno.report.cell import Cell, Place
from convdyno.report.format import MODES, settings_of

Spec = dict[str, Any]
Values = list[dict[str, Any]]

COLOURS = (
    "#1f6feb", "#e07b00", "#2da44e", "#bf4bd0", "#0d9aa6", "#d1435b", "#8a6d3b", "#6e7bd9",
)  # fmt: skip
"""Of series in their order: tones that stand out on white and on black, and that colour-blind eyes
tell apart by lightness."""
ENGINES = ("torch", "jax", "tensorflow", "keras/torch", "keras/jax", "keras/tensorflow")
"""Have the same colour in every chart."""
GREY = "#8b949e"
MUTED = "#57606a"
WIDTH = 620
"""Of a picture in a file; in the page a chart is as wide as its place."""
APART, MOST_APART = 0.016, 0.3
"""How far series stand apart: of the axis, and all together at most of a gap between places."""
ROW: Spec = {"field": "row", "type": "ordinal", "axis": None}
"""The rows of a chart that has its words above them."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
CONFIG: Spec = {
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "tickCount": 6, "labelFontSize": 12, "titleFontSize": 12, "titlePadding": 8,
        "titleFontWeight": "normal", "labelSeparation": 6,
        "labelColor": MUTED, "titleColor": MUTED, "gridColor": "#eaeef2", "domainColor": GREY,
        "tickColor": GREY,
    },
    "legend": {
        "labelFontSize": 12, "labelLimit": 150, "orient": "top", "title": None, "columns": 3,
        "symbolStrokeWidth": 2, "symbolOpacity": 1, "labelColor": "#24292f", "offset": 10,
        "direction": "horizontal",
    },
    "title": {
        "fontSize": 15, "subtitleFontSize": 12, "subtitleColor": MUTED, "anchor": "start",
        "offset": 14, "subtitlePadding": 6,
    },
    "text": {"color": "#24292f"},
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Figure:
    """A chart, what it is about and the words beside it."""

    section: str
    name: str
    """The name of its file, without the ending."""
    title: str
    subtitle: str
    spec: Spec
    """Without its width."""
    values: Values
    notes: tuple[str, ...] = ()
    """Sentences that belong to it."""

    def to_page(self) -> Spec:
        """The description for a place of any width, with the values apart."""
        rows = {value.get("row") for value in self.values}
        height = self.step * len(rows) or self.spec["height"]
        return self.spec | {"width": "container", "height": height, "layer": self._layers()}

    def _layers(self) -> list[Spec]:
        """The layers that have something to show; Vega warns of others."""
        fields = [_has(field) for field in {field for value in self.values for field in value}]

        def empty(step: Spec) -> bool:
            return isinstance(step["filter"], str) and step["filter"] not in fields

        layers: list[Spec] = self.spec["layer"]
        return [one for one in layers if not any(map(empty, one.get("transform", ())))]

    @property
    def step(self) -> int:
        """How high one of its rows is; 0 if it has none."""
        height = self.spec["height"]
        return int(height["step"]) if isinstance(height, dict) else 0

    def to_file(self) -> Spec:
        """The description of a picture on white, with its title."""
        subtitle = textwrap.wrap(self.subtitle, 96) or [""]
        return self.spec | {
            "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
            "width": WIDTH,
            "title": {"text": self.title, "subtitle": subtitle},
            "padding": 16,
            "background": "white",
            "config": CONFIG,
            "data": {"name": "values", "values": self.values},
            "layer": self._layers(),
        }


def place_figure(
    section: str, place: Place, what: str, spec: Spec, values: Values, cells: Sequence[Cell],
    notes: Sequence[str] = (),
) -> Figure:  # fmt: skip
    """A chart about one network and mode on one machine."""
    network, mode, machine = place
    same = {settings_of(cell.trial) for cell in cells}
    setting = f"; {next(iter(same))}" if len(same) == 1 and any(same) else ""
    return Figure(
        section=section,
        name=f"{network}_{section}" + (f"_{mode}" if mode != "train" else ""),
        title=", ".join(filter(None, (network, MODES[mode], what))),
        subtitle=f"{machine}{setting}".removeprefix("; "),
        spec=spec,
        values=values,
        notes=tuple(notes),
    )


def svg(figure: Figure) -> str:
    """A chart as a picture for any browser or paper; made here, without a network."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(figure.to_file(), allowed_base_urls=[]))


def png(figure: Figure) -> bytes:
    """The same as pixels, two for each point."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(figure.to_file(), scale=2, allowed_base_urls=[]))


def script() -> str:
    """Vega, Vega-Lite and vega-embed as one script that needs no network."""
    import vl_convert

    return str(vl_convert.javascript_bundle())  # type: ignore[call-arg]


@contextmanager
def script_meanwhile() -> Iterator[Callable[[], str]]:
    """The same, made by another process while this one does something else."""
    code = "import sys, vl_convert; sys.stdout.write(vl_convert.javascript_bundle())"
    maker = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )

    def made() -> str:
        found, _ = maker.communicate()
        return found.decode() if maker.returncode == 0 else script()

    with maker:
        try:
            yield made
        finally:
            maker.kill()


def colours(names: Sequence[str]) -> list[str]:
    """A colour for each name: known engines always have theirs, others what is left."""
    known = {name: COLOURS[ENGINES.index(name)] for name in names if name in ENGINES}
    left = [colour for colour in COLOURS if colour not in known.values()] or [GREY]
    others = [name for name in names if name not in known]
    chosen = known | {name: left[place % len(left)] for place, name in enumerate(others)}
    return [chosen[name] for name in names]


def layered(layers: Sequence[Spec], height: int | Mapping[str, int]) -> Spec:
    """Layers that share the values of the chart."""
    return {"data": {"name": "values"}, "height": height, "layer": list(layers)}


def mark(kind: str, encoding: Mapping[str, Any], **style: Any) -> Spec:
    """One layer of a chart: a kind of mark and what it shows."""
    return {"mark": {"type": kind, **style}, "encoding": dict(encoding)}


def quantity(field: str, title: str | None = None, **more: Any) -> Spec:
    """A measured axis; the layer that has a title gives it to all."""
    named = {} if title is None else {"title": title}
    return {"field": field, "type": "quantitative", **named, **more}


def interval(axis: str) -> Spec:
    """The two ends of an interval along `x` or `y`."""
    return {axis: quantity("low"), f"{axis}2": {"field": "high"}}


def arrows(axis: str, across: Spec, colour: Spec, **style: Any) -> list[Spec]:
    """Where an interval along `x` or `y` goes on beyond the frame: an arrow at that side."""
    shapes = {"x": ("left", "right"), "y": ("down", "up")}[axis]
    return [
        only(field, mark("point", {axis: quantity(field), **across, "color": colour},
            shape=f"triangle-{shape}", filled=True, size=60, opacity=1, **style))
        for field, shape in zip(("below", "above"), shapes, strict=True)
    ]  # fmt: skip


def clip_note(values: Values) -> list[str]:
    """What an arrow means, where there is one."""
    cut = any("below" in value or "above" in value for value in values)
    return ["an arrow: it goes on beyond the frame"] if cut else []


def side_by_side(places: Sequence[float], series_count: int) -> list[float]:
    """How far each series is moved aside on an axis, so that none hides another's intervals."""
    ordered = sorted(set(places))
    gaps = [after - before for before, after in pairwise(ordered)]
    if series_count < 2 or not gaps:
        return [0.0] * series_count
    step = min(APART * (ordered[-1] - ordered[0]), MOST_APART * min(gaps) / (series_count - 1))
    return [step * (number - (series_count - 1) / 2) for number in range(series_count)]


def series(
    field: str, names: Sequence[str], shown: Sequence[Any], legend: Spec | None = None
) -> Spec:
    """A series by how each of its names is shown: colours, or dashes."""
    scale = {"domain": list(names), "range": list(shown)}
    return {"field": field, "type": "nominal", "title": None, "scale": scale, "legend": legend}


def coloured(field: str, names: Sequence[str]) -> Spec:
    """A series by its colour; alone it needs no legend."""
    return series(field, names, colours(names), {} if len(names) > 1 else None)


def words(row: Spec, room: int = 130) -> list[Spec]:
    """The words above a row: what it is at the left, its figures at the right.

    What has no room is cut off; `room` is what the figures need.
    """
    style = {"baseline": "bottom", "yOffset": 0, "fontSize": 12}
    left = {"x": {"value": 0}, "y": row, "text": {"field": "label"}}
    right = {"x": {"value": "width"}, "y": row, "text": {"field": "told"}}
    fits = {"limit": {"expr": f"width - {room}"}}
    return [
        only("label", mark("text", left, align="left", **style, **fits)),
        only("told", mark("text", right, align="right", **style)),
    ]


def only(field: str, layer: Spec) -> Spec:
    """A layer for the values that have a field."""
    return {"transform": [{"filter": _has(field)}]} | layer


def _has(field: str) -> str:
    return f"isValid(datum.{field})"


def dashed(field: str, names: Sequence[str]) -> Spec:
    """A series by the dashes of its line."""
    dashes = [[1, 0], [6, 3], [2, 3], [8, 3, 2, 3], [4, 2]]
    patterns = [dashes[place % len(dashes)] for place in range(len(names))]
    legend = {"symbolType": "stroke", "symbolStrokeColor": GREY, "symbolSize": 300}
    return series(field, names, patterns, legend if len(names) > 1 else None)


def tooltip(**fields: str) -> list[Spec]:
    """What is shown where the mouse is: fields by the words before them."""
    return [
        {"field": field, "title": title.replace("_", " "), "type": "nominal"}
        for title, field in fields.items()
    ]
