"""The JSON document of a benchmark: what `--json` prints. `docs/json.md` describes it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from convdyno import __version__
from convdyno.report.cell import Cell
from convdyno.report.columns import cell_data
from convdyno.report.comparisons import Pair
from convdyno.report.ladders import Climbed
from convdyno.report.scaling import Curve
from convdyno.store.certificate import Certificate

FORMAT = 1


def bench_document(
    cells: Sequence[Cell],
    compared: Sequence[Pair],
    ladders: Sequence[Climbed],
    folder: Path,
    curves: Sequence[Curve] = (),
) -> dict[str, Any]:
    """Cells, comparisons, ladders and scaling curves, unrounded."""
    numbers = {cell.id: number for number, cell in enumerate(cells)}
    return versioned(
        cells=[cell_data(cell, folder=folder) for cell in cells],
        comparisons=[pair.to_data(numbers) for pair in compared],
        ladders=[ladder.to_data(numbers) for ladder in ladders],
        scaling=[curve.to_data(numbers) for curve in curves],
    )


def versioned(**parts: Any) -> dict[str, Any]:
    """A document, with the number of its format and our own before its parts."""
    return {"format": FORMAT, "convdyno": __version__, **parts}


def certificates_document(certificates: Sequence[Certificate]) -> dict[str, Any]:
    """Certificates for machines; with one network its engines stand at the top."""
    return versioned(
        passed=all(certificate.passed for certificate in certificates),
        engines=[
            {"network": certificate.network, "manner": certificate.manner.words}
            | proof.model_dump(mode="json")
            for certificate in certificates
            for proof in certificate.engines
        ],
        certificates=[
            certificate.model_dump(mode="json", exclude={"engines"}) | {"hash": certificate.hash}
            for certificate in certificates
        ],
    )


def to_json(document: dict[str, Any]) -> str:
    """The document as strict JSON: what is not a finite number is null."""
    return json.dumps(_finite(document), indent=1, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
