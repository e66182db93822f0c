"""Charts: one Vega-Lite description gives the SVG and the PNG. Altair is imported when needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from convdyno.report.scaling import Curve, Point
from convdyno.report.words import percent

if TYPE_CHECKING:
    import altair

IDEAL = "ideal"
COLOURS = ("#1f6feb", "#e07b00", "#2da44e")
"""Of the ways of exchange, in their order; blue, orange and green that colour-blind eyes tell."""
GREY = "#8b949e"
PLACES: tuple[dict[str, Any], ...] = (
    {"align": "left", "baseline": "top", "dx": 7, "dy": 5},
    {"align": "right", "baseline": "bottom", "dx": -7, "dy": -5},
    {"align": "left", "baseline": "middle", "dx": 9, "dy": 0},
)
"""Where the efficiencies of each line stand, so that they do not meet."""
WIDTH, HEIGHT = 460, 300


def scaling_chart(curve: Curve) -> altair.LayerChart:
    """Images per second by devices, with 95 % intervals, efficiencies and the ideal line."""
    import altair as alt

    lines = {_line_name(curve, kind): points for kind, points in curve.lines.items()}
    values = [_point(point, line) for line, points in lines.items() for point in points]
    counts = sorted({0, *(value["devices"] for value in values)})
    entries = [*lines, IDEAL][: len(lines) + (curve.baseline is not None)]
    x = alt.X(
        "devices:Q",
        title=_devices(curve),
        scale=alt.Scale(domain=[0, counts[-1] * 1.06], nice=False),
        axis=alt.Axis(
            values=counts, format="d", grid=False, labelOverlap="greedy", labelSeparation=6
        ),
    )
    y = alt.Y("rate:Q", title="Images/s", scale=alt.Scale(zero=True))
    # Nothing is above the ideal line; without one the free corner is below the curve.
    corner: Any = "top-left" if curve.baseline is not None else "bottom-right"
    legend = alt.Legend(orient=corner, symbolType="stroke", symbolSize=400, offset=8)
    colours = [GREY if name == IDEAL else COLOURS[i] for i, name in enumerate(entries)]
    dashes = [[5, 4] if name == IDEAL else [1, 0] for name in entries]
    colour = alt.Color(
        "line:N", title=None, scale=alt.Scale(domain=entries, range=colours), legend=legend
    )
    dash = alt.StrokeDash(
        "line:N", title=None, scale=alt.Scale(domain=entries, range=dashes), legend=legend
    )
    measured = alt.Chart(alt.InlineData(values=values)).encode(x=x, color=colour)
    end = measured.mark_tick(width=9, thickness=1.5, orient="horizontal", opacity=1)
    layers: list[Any] = [
        alt.Chart(alt.InlineData(values=_ideal(curve, counts[-1])))
        .mark_line(strokeWidth=1.5)
        .encode(x=x, y=y, color=colour, strokeDash=dash),
        measured.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash),
        measured.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2="high:Q"),
        end.encode(y=alt.Y("low:Q")),
        end.encode(y=alt.Y("high:Q")),
        measured.mark_point(filled=True, size=45, opacity=1).encode(y=y),
    ]
    for name, place in zip(lines, PLACES, strict=False):
        own = [value for value in values if value["line"] == name]
        layers.append(
            alt.Chart(alt.InlineData(values=own))
            .mark_text(fontSize=11, **place)
            .encode(x=x, y=y, color=colour, text="efficiency:N")
        )
    title = alt.TitleParams(_title(curve), subtitle=_subtitle(curve), anchor="start", offset=14)
    chart: altair.LayerChart = (
        alt.layer(*layers)
        .properties(width=WIDTH, height=HEIGHT, title=title, padding=16, background="white")
        .configure_view(stroke=None)
        .configure_axis(
            labelFontSize=12, titleFontSize=13, titlePadding=10, titleFontWeight="normal",
            gridColor="#eaeef2", domainColor="#57606a", tickColor="#57606a",
        )
        .configure_legend(labelFontSize=12, labelLimit=300)
        .configure_title(fontSize=15, subtitleFontSize=11, subtitleColor="#57606a")
    )  # fmt: skip
    return chart


def svg(chart: altair.LayerChart) -> str:
    """A chart as a picture for any browser or paper; made here, without a network."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.to_dict()))


def _point(point: Point, line: str) -> dict[str, Any]:
    share = point.gain.efficiency.share if point.gain else None
    return {
        "devices": point.trial.devices,
        "rate": point.rate,
        "low": point.row.low if point.row.low is not None else point.rate,
        "high": point.row.high if point.row.high is not None else point.rate,
        "line": line,
        "efficiency": percent(share) if share is not None else "",
    }


def _ideal(curve: Curve, most: int) -> list[dict[str, Any]]:
    if curve.baseline is None:
        return []
    return [{"devices": n, "rate": n * curve.baseline.rate, "line": IDEAL} for n in (0, most)]


def _line_name(curve: Curve, kind: str) -> str:
    if kind == "default":
        return curve.work.engine
    return f"{curve.work.engine}, " + ("no exchange" if kind == "independent" else kind)


def _devices(curve: Curve) -> str:
    settings = curve.points[0].row.record.settings or {}
    if str(settings.get("device", "")).startswith("cuda"):
        return "Number of GPUs"
    cores = curve.work.cores
    each = "" if cores is None else f" ({cores} CPU core{'s' * (cores > 1)} each)"
    return f"Number of devices{each}"


def _title(curve: Curve) -> str:
    work = curve.work
    mode = {"train": "training", "infer": "inference"}[work.mode]
    return f"{work.network}, {mode}, {work.precision}"


def _subtitle(curve: Curve) -> list[str]:
    record = curve.points[-1].row.record
    device = (record.settings or {}).get("device_name")
    where = [curve.scaling, *([str(device)] if device else []), record.created[:10]]
    shown = "bars: 95 % intervals"
    if curve.baseline is not None:
        shown += "; percentages: efficiency, the share of the ideal"
    return ["; ".join(where), shown]
