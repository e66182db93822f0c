"""The proof that engines compute the same function, or the op in which they part."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from convdyno.store.record import Frozen
from convdyno.trial.manner import Manner

SCHEMA_VERSION = 2


class Finding(Frozen):
    """One kind of evidence: the tensor in which an engine is farthest off, and by how much."""

    kind: str
    distance: float
    """Of the tensor from what is right, relative to its own norm."""
    tolerance: float
    """The largest distance that passes, for that tensor."""
    where: str = ""
    """The tensor: in it the distance is the largest share of its tolerance."""

    @property
    def passed(self) -> bool:
        """Whether that is within the tolerance; what is not a number is not."""
        return self.distance <= self.tolerance

    @property
    def ratio(self) -> float:
        """The distance as a share of the tolerance."""
        return self.distance / self.tolerance if self.tolerance else float("inf")


class Maker(Frozen):
    """Everything that decides what an engine computes, besides what it is asked."""

    convdyno: str = ""
    """The version of convdyno."""
    sources: str = ""
    """The digest of the sources that lower and step, and of those that prove."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Of every package whose arithmetic is involved."""
    device: str = ""
    """The kind of processor and of accelerators."""
    switches: dict[str, str] = Field(default_factory=dict)
    """What is set in the environment that changes arithmetic."""


class Coverage(Frozen):
    """How far the loss moves, in limits, if one node is wrong in one thing."""

    node: str
    op: str
    change: str
    share: float
    """By how much a number is off; 1 where the op itself is another."""
    moved: float

    @property
    def smallest(self) -> float:
        """The smallest share of the same change that would be seen."""
        return self.share / self.moved if self.moved else float("inf")


UNKNOWN = Maker()
"""Of a certificate that does not say: of other code than any."""


class EngineProof(Frozen):
    """What was found about one engine."""

    engine: str
    passed: bool
    reason: str = ""
    version: str = ""
    """Of the framework."""
    maker: Maker = UNKNOWN
    findings: tuple[Finding, ...] = ()


class Certificate(Frozen):
    """What was found about several engines and one network."""

    schema_version: int = SCHEMA_VERSION
    network: str
    form: str
    """The small form that was computed, in words."""
    digest: str
    """Of that small form's blueprint."""
    parameters: int
    manner: Manner = Manner()
    """How it was computed."""
    condition: float
    """How much rounding changes the usual gradient of the reference."""
    unseen: tuple[str, ...] = ()
    """What could not be made to matter: nodes and tensors of which nothing is proven."""
    coverage: tuple[Coverage, ...] = ()
    """What each fault would do to the answer, where that was asked for."""
    engines: tuple[EngineProof, ...]
    created: str

    @model_validator(mode="before")
    @classmethod
    def _first_schema(cls, data: Any) -> Any:
        """A certificate of the first schema knew the kernels only, and not who had made it."""
        if isinstance(data, dict) and data.get("schema_version", SCHEMA_VERSION) == 1:
            return {k: v for k, v in data.items() if k != "kernels"} | {
                "manner": {"kernels": data.get("kernels", "native")}
            }
        return data

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

    def still_holds(self, digest: str, makers: Mapping[str, Maker]) -> bool:
        """Whether it is of that blueprint, and of the engines as they are now."""
        known = {proof.engine: proof.maker for proof in self.engines}
        same = self.schema_version == SCHEMA_VERSION and self.digest == digest
        return same and makers.items() <= known.items()
