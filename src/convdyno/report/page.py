"""The report as one page: a file that needs no network, on a screen of any size or on paper."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources
from operator import itemgetter
from string import Template
from typing import Any

from convdyno import __version__
from convdyno.report.cell import Cell, grouped
from convdyno.report.cells import TrainingRun
from convdyno.report.charts import Figure, script
from convdyno.report.columns import cell_words
from convdyno.report.conclusion import conclusion
from convdyno.report.findings import merged_warnings
from convdyno.report.format import noun, pairs, quantity, settings_of
from convdyno.report.history import CAVEAT
from convdyno.report.page_data import page_data
from convdyno.report.report_model import ReportModel, training_row
from convdyno.report.text_table import html_table

SECTIONS = {
    "ratios": (
        "What is faster",
        "Ratios of images per second with their intervals. Cells of one run took turns, and are "
        "compared round by round; the ratios of one chart are corrected together (Holm), so an "
        "interval that leaves out 1 is a verdict: above 1 the first of the two is faster. The blue "
        "band is 1 %: an interval inside it means equivalent.",
    ),
    "throughput": (
        "Throughput",
        "Images per second of each cell with its 95 % interval, which knows how much fresh "
        "processes differ. Where a cell was measured more than once, the newest counts.",
    ),
    "history": (
        "History",
        "The runs of each cell that was measured more than once, with their 95 % intervals; a "
        f"dashed line is where a version changed. {CAVEAT}",
    ),
    "scaling": (
        "Scaling",
        "What more devices bring, against the ideal of as many devices, each as fast as one alone.",
    ),
    "ladder": (
        "Where the time goes",
        "The same step with less and less of its input, and with and without the exchange of "
        "gradients: the differences are what each part costs.",
    ),
    "roofline": (
        "What the device could do",
        "The operations that the network's mathematics needs, per second, against what plain work "
        "reached in the same process.",
    ),
    "blocks": (
        "How much it varies",
        "Every block that was timed, against its cell's headline. Each line is one process, each "
        "point a block, the red tick the median of those that count.",
    ),
    "accuracy": (
        "Time to accuracy",
        "Accuracy on all test images over the time spent in training.",
    ),
}
"""The sections of charts: their titles, and how to read them."""
STATIC_ROWS = 200
"""Rows of the table where there are no scripts."""
MOST_NAMES = 6
"""Cells that a warning names."""
MORE = '<div class="pages" hidden><span></span> <button type="button">show more</button></div>'


def page(
    report: ReportModel,
    charts: Sequence[Figure],
    title: str,
    library: Callable[[], str] = script,
) -> str:
    """The whole page; `library` gives the script that draws charts."""
    charts = [chart for name in SECTIONS for chart in charts if chart.section == name]
    parts: list[Section | None] = [_cells(report), *_chart_sections(report, charts)]
    if report.gathered.trainings:
        parts.append(_trainings(report.gathered.trainings))
    parts += [_minds(report), _machines(report), _repeat()]
    shown = [part for part in parts if part is not None]
    assets = resources.files("convdyno.report") / "assets"
    return Template((assets / "page.html").read_text("utf-8")).substitute(
        title=escape(title),
        css=(assets / "page.css").read_text("utf-8"),
        about=escape(_about(report)),
        tiles=_tiles(report),
        conclusion=_conclusion(report),
        links="".join(f'<a href="#{name}">{escape(head)}</a>' for name, head, _ in shown),
        newest=_newest(report),
        sections="\n".join(text for _, _, text in shown),
        footer=f"made by convdyno {escape(__version__)}; this page needs no network",
        data=page_data(report, charts),
        library=library().replace("</script", "<\\/script"),
        script=(assets / "page.js").read_text("utf-8"),
    )


Section = tuple[str, str, str]
"""A name, a heading, and the HTML of it all."""


def _section(name: str, heading: str, lead: str, *inside: str, kind: str = "") -> Section:
    classes = f' class="{kind}"' if kind else ""
    lead = f'<p class="lead">{_prose(lead)}</p>' if lead else ""
    body = "\n".join(inside)
    text = f'<section id="{name}"{classes}><h2>{escape(heading)}</h2>{lead}\n{body}</section>'
    return name, heading, text


def _cells(report: ReportModel) -> Section:
    same = _same_for_all(report.cells)
    rows = [cell_words(cell) for cell in report.cells[:STATIC_ROWS]]
    lead = f"All cells: {same}." if same else ""
    return _section(
        "cells", "Cells", lead,
        _scrolled('<table><thead id="head"></thead><tbody id="rows"></tbody></table>'),
        MORE, f"<noscript>{html_table(rows)}</noscript>",
    )  # fmt: skip


def _chart_sections(report: ReportModel, charts: Sequence[Figure]) -> Iterable[Section]:
    for name, (heading, lead) in SECTIONS.items():
        own = [(n, chart) for n, chart in enumerate(charts) if chart.section == name]
        if not own:
            continue
        inside = "".join(_figure(number, chart) for number, chart in own)
        rest = AFTER_CHARTS[name](report) if name in AFTER_CHARTS else ""
        kind = "figures one" if len(own) == 1 else "figures"
        figures = f'<div class="{kind}">{inside}</div>'
        yield _section(name, heading, lead, figures, rest, kind="has-figures")


def _ratios_left_out(report: ReportModel) -> str:
    if not report.families_left_out:
        return ""
    older = noun(report.families_left_out, "older combination")
    return (
        f'<p class="muted">{older} of network, mode and machine left out: '
        "<code>convdyno compare</code> shows all, "
        "<code>convdyno report --where</code> some.</p>"
    )


def _last_changes(report: ReportModel) -> str:
    """The last two runs of each cell that has a history, in a table."""
    table = _scrolled(html_table([one.row for past in report.histories for one in past.series]))
    if not report.histories_left_out:
        return table
    older = noun(report.histories_left_out, "network", "networks")
    return (
        f'{table}<p class="muted">{older} with older runs left out: '
        "<code>convdyno report --where</code> shows others.</p>"
    )


AFTER_CHARTS: Mapping[str, Callable[[ReportModel], str]] = {
    "ratios": _ratios_left_out,
    "history": _last_changes,
}
"""What stands below the charts of a section."""


def _scrolled(table: str) -> str:
    """A table that scrolls by itself where it is wider than the page, by keys as well."""
    return f'<div class="wide" tabindex="0">{table}</div>'


def _figure(number: int, chart: Figure) -> str:
    notes = "".join(f"<li>{_prose(note)}</li>" for note in chart.notes)
    listed = f'<ul class="notes">{notes}</ul>' if notes else ""
    title = escape(chart.title)
    return (
        f'<figure id="figure-{number}"><figcaption><h3>{title}</h3>'
        f'<span class="sub">{escape(chart.subtitle)}</span></figcaption>'
        f'<div class="chart" role="img" aria-label="{title}"></div>{listed}</figure>\n'
    )


def _prose(text: str) -> str:
    """A sentence, what stands in backquotes as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _trainings(runs: Sequence[TrainingRun]) -> Section:
    """Every run of training in a table."""
    table = html_table([training_row(run) for run in runs])
    return _section("trainings", "Runs of training", "", _scrolled(table))


def _minds(report: ReportModel) -> Section | None:
    """What to mind and what to do about it, what failed and why, which files were no records."""
    items = [
        f'<li class="bad"><b>{escape(status)}</b>: {escape(reason)}{_of(cells)}</li>'
        for (status, reason), cells in report.failures().items()
    ]
    items += [
        f"<li>{_prose(text)}{' (the worst of them)' * differing}{_of(cells)}</li>"
        for text, cells, differing in merged_warnings(report.cells)
    ]
    items += [f"<li>skipped: {escape(text)}</li>" for text in report.gathered.skipped]
    if not items:
        return None
    return _section("mind", "What to mind", "", f'<ul class="minds">{"".join(items)}</ul>')


def _of(cells: Sequence[Cell]) -> str:
    """Which cells a warning is about."""
    names = [*dict.fromkeys(cell.trial.label for cell in cells)]
    rest = len(names) - MOST_NAMES
    more = f", and {rest} more" if rest > 0 else ""
    return f'<span class="sub">{escape("; ".join(names[:MOST_NAMES]))}{more}</span>'


def _machines(report: ReportModel) -> Section | None:
    """What it was measured on and with."""
    cards = []
    for name, machine in report.gathered.machines.items():
        packages = grouped(report.versions(name), itemgetter(0))
        facts = _machine_facts(machine) | {
            package: ", ".join(version for _, version in packages[package])
            for package in sorted(packages)
        }
        listed = "".join(
            f"<dt>{escape(key)}</dt><dd>{escape(str(fact))}</dd>"
            for key, fact in facts.items()
            if fact not in (None, "", [], {})
        )
        cards.append(f"<div><h3>{escape(name)}</h3><dl>{listed}</dl></div>")
    if not cards:
        return None
    return _section(
        "machines", "Machines and versions", "", f'<div class="machines">{"".join(cards)}</div>'
    )


def _machine_facts(machine: Mapping[str, Any]) -> dict[str, Any]:
    memory = machine.get("memory_bytes")
    usable, all_of = machine.get("cores_usable"), machine.get("cores_logical")
    gpus = machine.get("gpus") or ()
    return {
        "processor": machine.get("cpu"),
        "cores": f"{usable} usable of {all_of}" if usable else None,
        "instructions": ", ".join(map(str, machine.get("cpu_flags") or ())),
        "memory": quantity(memory, "B") if isinstance(memory, int | float) else None,
        "GPUs": "; ".join(str(gpu.get("name", gpu)) for gpu in gpus),
        "system": machine.get("system"),
        "python": machine.get("python"),
        "virtual machine": "yes" if machine.get("hypervisor") else None,
        "CPU governor": machine.get("governor"),
        "huge pages": machine.get("huge_pages"),
        "environment": pairs(machine.get("environment") or {}),
    }


def _repeat() -> Section:
    lead = (
        "The command of each cell that the filter leaves. It measures that cell alone: for a "
        "ratio, give the values of its axis as a list, so that cells take turns."
    )
    return _section("repeat", "To repeat a cell", lead,
        '<ul class="repeat" id="commands"></ul>', MORE)  # fmt: skip


def _about(report: ReportModel) -> str:
    dates = sorted(cell.created[:10] for cell in report.cells)
    period = " to ".join(dict.fromkeys(dates[:1] + dates[-1:]))
    measured = f"measured {period}; " if period else ""
    return f"{measured}written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def _tiles(report: ReportModel) -> str:
    cells = report.cells
    counts = {
        ("cell measured", "cells measured"): sum(cell.headline is not None for cell in cells),
        ("network", "networks"): len({cell.trial.network for cell in cells}),
        ("engine", "engines"): len({cell.trial.engine for cell in cells}),
        ("machine", "machines"): len({cell.machine for cell in cells}),
        ("run of training", "runs of training"): len(report.gathered.trainings),
        ("failed", "failed"): sum(cell.status not in ("ok", "interrupted") for cell in cells),
    }
    optional = {"run of training", "failed"}
    return "".join(
        f"<li><b>{count:,}</b><span>{one if count == 1 else many}</span></li>"
        for (one, many), count in counts.items()
        if count or one not in optional
    )


def _conclusion(report: ReportModel) -> str:
    """What was found, before any evidence of it."""
    told = "".join(f"<li>{_prose(sentence)}</li>" for sentence in conclusion(report))
    return f'<ul class="conclusion" aria-label="what was found">{told}</ul>' if told else ""


def _newest(report: ReportModel) -> str:
    if len(report.newest) == len(report.cells):
        return ""
    return '<label><input id="newest" type="checkbox" checked> newest of each</label>'


def _same_for_all(cells: Sequence[Cell]) -> str:
    """Settings that no column shows because all cells have the same."""
    names = ("network", "engine", "mode", "precision")
    found = [{str(getattr(cell.trial, name)) for cell in cells} for name in names]
    found += [{settings_of(cell.trial) for cell in cells}, {cell.machine for cell in cells}]
    return ", ".join(value for values in found if len(values) == 1 for value in values if value)
