"""The proof that engines compute the same network."""

from __future__ import annotations

from collections.abc import Iterator

from convdyno.app.requests import CertifyRequest
from convdyno.engines import registry
from convdyno.stage.certify import Candidate, Examination, Subject
from convdyno.store.certificate import Certificate
from convdyno.store.folder import Store
from convdyno.trial import axes, parse
from convdyno.zoo.registry import find, small_form


def certify(request: CertifyRequest) -> Iterator[Certificate]:
    """Prove it anew for each network; each certificate as soon as it is there."""
    names = [find(name).name for name in parse.several(request.network, str)]
    engines = [registry.check(name).name for name in registry.chosen(request.engine)]
    axes.find("kernels").read(request.kernels)
    store = Store(request.out)
    store.prepare()
    yield from certificates(names, engines, request.kernels, store, renew=True)


def certificates(
    names: list[str], engines: list[str], kernels: str, store: Store, *, renew: bool = False
) -> Iterator[Certificate]:
    """A certificate for each network: the stored one where it still holds, else a new one."""
    versions = {engine: registry.check(engine).version or "" for engine in engines}
    candidates = [Candidate(engine, version) for engine, version in versions.items()]
    with Examination(candidates, kernels) as examination:
        for name in names:
            blueprint = small_form(name)
            stored = None if renew else store.certificate(name, kernels)
            if stored is not None and stored.digest == blueprint.digest:
                known = {proof.engine: proof.version for proof in stored.engines}
                if versions.items() <= known.items():
                    yield stored
                    continue
            height, width, _ = blueprint.image
            subject = Subject(
                network=name,
                form=f"1/8 of the channels, {height}x{width} images, {blueprint.classes} classes",
                blueprint=blueprint.to_json(),
                digest=blueprint.digest,
                parameters=blueprint.parameters,
            )
            certificate = examination.certify(subject)
            store.write_certificate(certificate)
            yield certificate
