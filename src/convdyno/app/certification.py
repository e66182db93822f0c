"""The proof that engines compute the same network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from convdyno.app.makers import maker
from convdyno.app.requests import CertifyRequest
from convdyno.app.shown import Shown
from convdyno.engines import registry
from convdyno.errors import Interrupted, UsageError, signal_of
from convdyno.report.console import Screen
from convdyno.stage.certify import Candidate, Examination, Subject
from convdyno.store.certificate import Certificate, Maker
from convdyno.store.folder import Store
from convdyno.trial import axes, parse, recipes
from convdyno.trial.manner import SEVERAL, Manner, UpdateRule
from convdyno.trial.spec import Optimiser
from convdyno.zoo.registry import find, small_form


@dataclass(frozen=True, eq=False, repr=False)
class Certified(Shown):
    """Certificates, one for each network and manner."""

    certificates: list[Certificate]

    @property
    def ok(self) -> bool:
        """Whether every engine computes what the reference computes."""
        return all(certificate.passed for certificate in self.certificates)

    def show(self, screen: Screen) -> None:
        """Print each certificate."""
        for certificate in self.certificates:
            screen.certificate(certificate)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A flat dict for each engine: its worst tensors, as shares of their limits."""
        return [
            {
                "network": certificate.network,
                "manner": certificate.manner.words,
                **{name: getattr(proof, name) for name in ("engine", "version", "passed")},
                "reason": proof.reason,
                **{finding.kind: finding.ratio for finding in proof.findings},
                "certificate": certificate.hash,
            }
            for certificate in self.certificates
            for proof in certificate.engines
        ]


def certify(request: CertifyRequest) -> Iterator[Certificate]:
    """Prove it anew for each network and manner; each certificate as soon as it is there."""
    names = [find(name).name for name in parse.several(request.network, str)]
    engines = [registry.check(name).name for name in registry.chosen(request.engine)]
    if "clockwork" in engines:
        raise UsageError("the clockwork engine computes nothing that could be proved: name another")
    wanted = [(name, manner) for name in names for manner in _manners(request, name)]
    store = Store(request.out)
    store.prepare()
    made = certificates(
        wanted, engines, store, renew=True, seed=request.seed, coverage=request.coverage
    )
    done = 0
    try:
        for certificate in made:
            done += 1
            yield certificate
    except KeyboardInterrupt as end:
        kept = f"{done} of {len(wanted)} certificates are made and kept in {request.out}"
        raise Interrupted(signal_of(end), f"{kept}; the same command makes all anew") from None


def certificates(
    wanted: Sequence[tuple[str, Manner]],
    engines: list[str],
    store: Store,
    *,
    renew: bool = False,
    seed: int = 0,
    coverage: bool = False,
) -> Iterator[Certificate]:
    """A certificate for each network and manner: the stored one where it still holds, else new."""
    makers = {engine: maker(engine) for engine in engines}
    candidates = [
        Candidate(engine, registry.check(engine).version or "", made)
        for engine, made in makers.items()
    ]
    with Examination(candidates, coverage=coverage) as examination:
        for name, manner in wanted:
            blueprint = small_form(name, auxiliary=manner.auxiliary)
            stored = None if renew else standing(store, name, manner, makers)
            if stored is not None:
                yield stored
                continue
            height, width, _ = blueprint.image
            subject = Subject(
                network=name,
                form=f"1/8 of the channels, {height}x{width} images, {blueprint.classes} classes",
                blueprint=blueprint.to_json(),
                digest=blueprint.digest,
                parameters=blueprint.parameters,
                seed=seed,
            )
            certificate = examination.certify(subject, manner)
            store.write_certificate(certificate)
            yield certificate


def standing(
    store: Store, network: str, manner: Manner, makers: dict[str, Maker]
) -> Certificate | None:
    """The stored certificate, if it is of this blueprint and of the engines as they are now."""
    stored = store.certificate(network, manner)
    digest = small_form(network, auxiliary=manner.auxiliary).digest
    return stored if stored and stored.still_holds(digest, makers) else None


def _manners(request: CertifyRequest, network: str) -> list[Manner]:
    """How a network is to be computed: every combination of what was asked for."""
    if request.auxiliary and not find(network).auxiliary:
        raise UsageError(f"{network} has no auxiliary heads")
    names = ("precision", "kernels", "layout", "compile")
    values = [axes.find(name).values(getattr(request, name)) for name in names]
    counts = [min(count, SEVERAL) for count in axes.find("devices").values(request.devices)]
    return [
        Manner(
            accumulate=request.accumulate,
            devices=devices,
            auxiliary=request.auxiliary,
            rule=rule,
            **dict(zip(names, chosen, strict=True)),
        )
        for *chosen, devices, rule in product(
            *values, dict.fromkeys(counts), _rules(request, network)
        )
    ]


def _rules(request: CertifyRequest, network: str) -> list[UpdateRule]:
    if request.recipe is not None and request.optimiser is not None:
        raise UsageError("--recipe has an update rule of its own: leave --optimiser out")
    if request.recipe is not None:
        return [UpdateRule.of(recipes.find(request.recipe).optimiser)]
    words = request.optimiser or find(network).optimiser
    kinds = axes.find("optimiser").values(words)
    return [UpdateRule.of(Optimiser.model_validate({"kind": kind})) for kind in kinds]
