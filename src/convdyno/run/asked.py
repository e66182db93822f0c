"""A worker's part in a certificate: what is asked, what is right, what an engine says, in files."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from convdyno.blueprint.graph import Blueprint
from convdyno.engines.contract import Engine
from convdyno.run import dropout_evidence, evidence
from convdyno.run.limits import condition
from convdyno.run.ranks import Ranks
from convdyno.trial.manner import Manner
from convdyno.trial.suspects import suspects


def pose(
    oracle: Engine,
    blueprint: str,
    question: str,
    to: str,
    manner: dict[str, Any],
    node: str | None,
    whole: str,
    seed: int,
) -> dict[str, Any]:
    """Write a question and what is right; say how well conditioned it is, and what it would see.

    Up to a node it is the question `whole`, of the whole network, cut off there.
    """
    wanted = Manner.model_validate(manner)
    calm = Blueprint.from_json(blueprint).without_dropout()
    if node is None:
        asked = evidence.pose(oracle, calm, wanted, seed)
    else:
        asked = evidence.cut(oracle, evidence.load_question(whole, calm), node, wanted)
    evidence.save_question(asked, question)
    right = evidence.expect(oracle, asked, wanted)
    said: dict[str, Any] = {"condition": condition(right)}
    if node is None:
        said["coverage"] = [asdict(e) for e in evidence.coverage(oracle, asked, right)]
        right |= dropout_evidence.right(Blueprint.from_json(blueprint))
    evidence.save(right, to)
    return said


def answer(
    engine: Engine,
    name: str,
    blueprint: str,
    question: str,
    to: str,
    manner: dict[str, Any],
    node: str | None,
    brief: bool,
    suspect: str,
    ranks: Ranks,
) -> None:
    """Write what an engine computes; by a rule that is wrong in one part, if one is suspected.

    Each rank writes what it has seen itself, all but rank 0 with their number behind the name.
    """
    calm = Blueprint.from_json(blueprint).without_dropout()
    if node is not None:
        calm = calm.probed(node, evidence.CLASSES)
    asked = evidence.load_question(question, calm)
    wanted = Manner.model_validate(manner)
    if suspect:
        asked = replace(asked, optimiser=suspects(wanted)[suspect](asked.optimiser))
        wanted = wanted.reference
    found = evidence.answer(engine, name, asked, wanted, ranks, brief=brief)
    if node is None and not suspect and ranks.alone:
        found |= dropout_evidence.found(engine, name, Blueprint.from_json(blueprint), wanted)
    evidence.save(found, to if ranks.first else f"{to}.{ranks.world.rank}")
