"""The proof that engines compute the same function, or the op in which they part."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from convdyno.store.record import Frozen

Arrays = Mapping[str, NDArray[np.floating]]

TOLERANCES = {"forward": 1e-4, "loss": 1e-4, "gradient": 1e-2, "update": 3e-2, "statistics": 1e-2}
"""The largest distance from the reference that passes, in float32."""


class Finding(Frozen):
    """One kind of evidence: how far an engine is from the reference, and where it is farthest."""

    kind: str
    distance: float
    """Relative to the size of what is compared."""
    tolerance: float
    where: str = ""

    @property
    def passed(self) -> bool:
        """Whether that is within the tolerance; what is not a number is not."""
        return self.distance <= self.tolerance


class EngineProof(Frozen):
    """What was found about one engine."""

    engine: str
    passed: bool
    reason: str = ""
    version: str = ""
    """Of the framework."""
    findings: tuple[Finding, ...] = ()


class Certificate(Frozen):
    """What was found about several engines and one network."""

    schema_version: int = 1
    network: str
    form: str
    """The small form that was computed, in words."""
    digest: str
    """Of that small form's blueprint."""
    parameters: int
    kernels: str = "native"
    condition: float
    """How much rounding the weights changes a gradient of the reference."""
    engines: tuple[EngineProof, ...]
    created: str

    @property
    def passed(self) -> bool:
        """Whether every engine computes what the reference computes."""
        return bool(self.engines) and all(engine.passed for engine in self.engines)

    @property
    def hash(self) -> str:
        """The identity of what was proven: sha256 of the findings."""
        text = json.dumps(self.model_dump(mode="json", exclude={"created"}), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def proof(self, engine: str) -> EngineProof | None:
        """What was found about one engine."""
        return next((found for found in self.engines if found.engine == engine), None)


def distance(found: Arrays, expected: Arrays) -> float:
    """The norm of all differences together, relative to that of what is expected."""
    off = sum(float(np.square(found[n] - a, dtype=np.float64).sum()) for n, a in expected.items())
    size = sum(float(np.square(a, dtype=np.float64).sum()) for a in expected.values())
    return float(np.sqrt(off / max(size, 1e-300)))


def farthest(found: Arrays, expected: Arrays) -> str:
    """The name of the array that contributes most to the distance."""
    return max(expected, key=lambda n: float(np.square(found[n] - expected[n]).sum()))
