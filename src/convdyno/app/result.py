"""What was measured, as a program or a notebook has it."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from convdyno.app.requests import RESULTS
from convdyno.report.console import Screen, sentence
from convdyno.report.document import Certificates, Compared, bench_document, compare_records
from convdyno.report.flat import flat
from convdyno.report.ladders import Climbed, climbed
from convdyno.report.rows import Row, row
from convdyno.report.scaling import Curve, curves
from convdyno.report.scaling_files import write_curves
from convdyno.report.sweep import said, varying
from convdyno.results.record import Record
from convdyno.trial.spec import Trial

ALWAYS = ("network", "engine", "precision", "batch")
"""What a table shows of every trial."""


class Result:
    """What was measured: it prints as `convdyno bench` does, and shows itself in a notebook.

    `records` have everything, `rows` the figures of each.
    """

    def __init__(
        self, records: Sequence[Record], certificates: Certificates | None = None,
        out: Path = RESULTS, budget_seconds: float | None = None,
    ) -> None:  # fmt: skip
        self.records = list(records)
        self.out, self.budget_seconds = out, budget_seconds
        self._certificates = certificates or {}

    @cached_property
    def rows(self) -> list[Row]:
        """The figures of each cell."""
        return [row(record) for record in self.records]

    @cached_property
    def compared(self) -> list[Compared]:
        """Two cells by their number, and their ratio, for all that differ in one thing."""
        return compare_records(self.records, self._certificates)

    @cached_property
    def ladders(self) -> list[Climbed]:
        """Where the time goes, if a ladder was asked for."""
        return list(climbed(self.rows))

    @cached_property
    def curves(self) -> list[Curve]:
        """What more devices bring, if several counts of them were measured."""
        return list(curves(self.rows))

    @property
    def ok(self) -> bool:
        """Whether every cell was measured."""
        return all(record.status == "ok" for record in self.records)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A flat dict for each cell, as `load` gives them."""
        return [flat(one) for one in self.rows]

    def document(self) -> dict[str, Any]:
        """All of it as data, as `bench --json` prints it."""
        return bench_document(self.rows, self.compared, self.ladders, self.out, self.curves)

    def write_curves(self) -> list[Path]:
        """Write the files of the scaling curves, if there are any; those for people are named."""
        return [f for f in write_curves(self.curves, self.out) if f.suffix in (".svg", ".csv")]

    def show(self, screen: Screen) -> None:
        """Print it."""
        screen.bench(self.rows, self.compared, self.ladders, self.curves)

    def __len__(self) -> int:
        return len(self.records)

    def __str__(self) -> str:
        text = io.StringIO()
        if self.records:
            self.show(Screen(text))
        return text.getvalue().rstrip() or "nothing was measured"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{self}</p>"
        differing = varying([one.trial for one in self.rows])
        axes = [name for name in Trial.model_fields if name in {*differing, *ALWAYS}]
        cells = [
            {name: said(one.trial, name) for name in axes}
            | {
                "images/s": _figure(one.images_per_second),
                "95 % interval": _between(one.low, one.high),
                "status": one.status
                if one.status == "ok"
                else f"{one.status}: {one.record.reason}",
            }
            for one in self.rows
        ]
        minded = dict.fromkeys(warning for one in self.rows for warning in one.warnings)
        lines = [sentence(self.rows[a].trial, self.rows[b].trial, c) for a, b, c in self.compared]
        lines += [f"mind: {warning}" for warning in minded]
        return _table(cells) + "".join(f"<p>{html.escape(line)}</p>" for line in lines)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in one.values()) + "</tr>"
        for one in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _between(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.4g} to {high:.4g}"
