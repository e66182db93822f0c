"""What is faster: ratios with their intervals and verdicts, as a forest plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from convdyno.report import charts
from convdyno.report.charts import GREY, ROW, Figure
from convdyno.report.comparisons import Pair
from convdyno.report.format import UNPAIRED, noun, said, times, varying
from convdyno.report.report_model import Family
from convdyno.report.uncertain import Frame, clipped, known

EQUIVALENT = 0.01
BESIDE_DECIDED, ALONE = 1.25, 2.0
"""By what factor the axis may be longer for the sake of what is undecided."""
VERDICTS = {"faster": "#2da44e", "slower": "#d1435b", "equivalent": "#1f6feb", "undecided": GREY}
TICKS = (
    0.1, 0.125, 0.2, 0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 0.95, 0.98, 1, 1.02, 1.05, 1.1, 1.25, 1.5, 2,
    3, 4, 5, 8, 10,
)  # fmt: skip


def ratio_figure(family: Family, numbers: dict[str, int]) -> Figure | None:
    """The forest plot: each ratio with its interval and its verdict."""
    shown = [pair for pair in family.pairs if pair.found.ratio is not None]
    if not shown:
        return None
    labels = _pair_labels(shown)
    room = _room(shown)
    values = [
        _ratio(pair, row, label, room, numbers)
        for row, (pair, label) in enumerate(zip(shown, labels, strict=True))
    ]
    x = charts.quantity("at", "Ratio of images/s, with its interval", scale={"type": "log",
        "domain": list(room), "nice": False, "padding": 9}, axis={"values": _ratio_ticks(room),
        "format": "~g", "grid": True})  # fmt: skip
    axis = {name: value for name, value in x.items() if name != "field"}
    verdicts = [name for name in VERDICTS if any(value["verdict"] == name for value in values)]
    colours = [VERDICTS[name] for name in verdicts]
    colour = charts.series("verdict", verdicts, colours, {"symbolType": "circle"})
    told = charts.tooltip(
        ratio="told", verdict="verdict", measured="how", level="level", rounds="rounds"
    )
    filled = {"condition": {"test": "datum.how == 'paired'", "value": 1}, "value": 0}
    band = {"x": {"datum": 1 / (1 + EQUIVALENT)}, "x2": {"datum": 1 + EQUIVALENT}, "y": ROW}
    spec = charts.layered(
        [
            charts.mark("bar", band, height=14, yOffset=8, color="#1f6feb", opacity=0.15),
            charts.mark("tick", {"x": axis | {"datum": 1}, "y": ROW}, height=14, yOffset=8,
                thickness=1.5, color=GREY),
            *charts.words(ROW),
            charts.only("low", charts.mark("rule", charts.interval("x") | {"y": ROW,
                "color": colour}, strokeWidth=3, yOffset=8, strokeCap="round")),
            *charts.arrows("x", {"y": ROW, "tooltip": told}, colour, yOffset=8),
            charts.only("at", charts.mark("point", {"x": x, "y": ROW, "color": colour,
                "fill": colour, "tooltip": told, "fillOpacity": filled}, size=70, yOffset=8,
                opacity=1, strokeWidth=2)),
        ],
        height={"step": 40},
    )  # fmt: skip
    cells = [cell for pair in shown for cell in (pair.a, pair.b)]
    notes = charts.clip_note(values)
    if any(not pair.paired for pair in shown):
        notes.append(f"a hollow point is unpaired: its two cells were {UNPAIRED}")
    notes += dict.fromkeys(p.found.reason for p in family.pairs if p.found.ratio is None)
    if family.left_out:
        more = noun(family.left_out, "more pair", "more pairs")
        notes.append(f"{more}: `convdyno compare` shows all")
    place = family.network, family.mode, family.machine
    return charts.place_figure("ratios", place, "", spec, values, cells, notes)


def _room(shown: Sequence[Pair]) -> Frame:
    """What the axis shows: all that is decided, and of the rest what does not dwarf that."""
    decided = [end for pair in shown if pair.decided for end in _ends(pair)]
    ends = [1 / (1 + EQUIVALENT), 1 + EQUIVALENT, *decided]
    beyond = BESIDE_DECIDED if decided else ALONE
    least, most = min(ends) / beyond, max(ends) * beyond
    rest = (end for pair in shown for end in (*_ends(pair), pair.found.ratio or 1.0))
    ends += [min(max(end, least), most) for end in rest]
    return min(ends), max(ends)


def _ends(pair: Pair) -> list[float]:
    return [end for end in (pair.found.low, pair.found.high) if end is not None]


def _ratio(
    pair: Pair, row: int, label: str, room: Frame, numbers: dict[str, int]
) -> dict[str, Any]:
    found = pair.found
    assert found.ratio is not None
    least, most = room
    place = {"at": found.ratio} if least <= found.ratio <= most else {}
    if not place:
        place = {"below": least} if found.ratio < least else {"above": most}
    return {
        "row": row, "label": label, "verdict": found.verdict, "how": pair.how,
        "rounds": found.rounds, "told": _told(pair),
        "level": f"{100 * found.level:.3g} %" if found.level else "no interval: one round",
        "cell": numbers[pair.a.id], "cell2": numbers[pair.b.id],
    } | clipped((found.low, found.high), room) | place  # fmt: skip


def _told(pair: Pair) -> str:
    """The ratio, with its interval or how little is known of it."""
    found = pair.found
    if pair.decided:
        return times(found)
    one = "" if found.low is not None else " (1 round)"
    return known(found.ratio, (found.low, found.high), _two_digits) + one


def _two_digits(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _pair_labels(pairs: Sequence[Pair]) -> list[str]:
    """The two values, and what else tells one pair from the others."""
    plain = [pair.a.trial.model_copy(update={pair.axis: getattr(pairs[0].a.trial, pair.axis)})
        for pair in pairs]  # fmt: skip
    axes = {pair.axis for pair in pairs}
    names = varying(plain, axes if len(axes) > 1 else ())
    found = []
    for pair in pairs:
        trial = pair.a.trial
        rest = [said(trial, name) for name in names if name not in (pair.axis, "optimiser")]
        axis = "" if pair.axis in ("engine", "precision") else f"{pair.axis.replace('_', ' ')} "
        found.append(
            " · ".join(filter(None, [f"{axis}{' / '.join(pair.values)}", ", ".join(rest)]))
        )
    return found


def _ratio_ticks(domain: Sequence[float]) -> list[float]:
    """A few round ratios within a domain, 1 among them, none too near to another."""
    low, high = domain
    apart = math.log(high / low) / 7
    kept = [1.0]
    step = max(0.001, float(f"{(high - low) / 4:.0e}"))
    fine = [round(step * n, 4) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    coarse = [tick for tick in TICKS if low <= tick <= high]
    for tick in coarse if len(coarse) > 2 else fine:
        if all(abs(math.log(tick / other)) >= apart for other in kept):
            kept.append(tick)
    return sorted(kept)
