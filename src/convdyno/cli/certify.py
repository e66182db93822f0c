"""`convdyno certify`: the proof that engines compute the same network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convdyno.cli import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convdyno.results.certificate import Certificate
    from convdyno.results.store import Store

EXAMPLES = """\b
Examples:
  convdyno certify resnet50-v1.5 --engine all
  convdyno certify deepmnist,lenet --engine torch --json

\b
Exit codes: 0 all passed, 2 bad usage, 5 an engine differs or failed.
"""


def certify(
    networks: Annotated[
        str, typer.Argument(metavar="NETWORK", help="A name, or a comma list of names.")
    ],
    engine: Annotated[str, typer.Option(help="all (installed), or a comma list.")] = "all",
    kernels: Annotated[str, typer.Option(help="native, tuned")] = "native",
    out: Annotated[Path, typer.Option(help="The folder of the records.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Prove that engines compute the same network: forward, gradients, updates, statistics.

    A small form of the network (an eighth of the channels, small images) is computed in float32 by
    each engine in a process of its own and compared with a float64 reference.
    """
    from convdyno.engines import registry
    from convdyno.report.bench_json import certificates_document, to_json
    from convdyno.report.console import Screen
    from convdyno.results.store import Store
    from convdyno.zoo.registry import find

    names = [find(name).name for name in parse.several(networks, str)]
    engines = [registry.check(name).name for name in registry.chosen(engine)]
    parse.one_of("kernels", ("native", "tuned"))(kernels)
    store = Store(out)
    store.prepare()
    found = []
    for certificate in certificates(names, engines, kernels, store, renew=True):
        found.append(certificate)
        if not as_json:
            Screen().certificate(certificate)
    if as_json:
        typer.echo(to_json(certificates_document(found)))
    if not all(certificate.passed for certificate in found):
        raise typer.Exit(5)


def certificates(
    names: list[str], engines: list[str], kernels: str, store: Store, *, renew: bool = False
) -> Iterator[Certificate]:
    """A certificate for each network: the stored one where it still holds, else a new one."""
    from convdyno.engines import registry
    from convdyno.stage.certify import Candidate, Examination, Subject
    from convdyno.zoo.registry import small_form

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
