"""What a report comes to in one to five sentences: what is faster than what, and how sure that is.

A question is two values of an axis for one network, mode and machine. All its comparisons, with
other batches or engines, are told in one sentence. Where more questions are decided than there is
room for, those that differ in network, mode or machine alone are one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from convdyno.report.cell import grouped
from convdyno.report.comparisons import DEVICE, Pair, family_of
from convdyno.report.findings import findings
from convdyno.report.format import MODES, around, between, labels_of, noun, ratio, said
from convdyno.report.history import history_sentence
from convdyno.report.report_model import ReportModel

MOST = 5
"""Sentences in all."""
DIFFERENT = ("faster", "slower")


def conclusion(report: ReportModel) -> list[str]:
    """The sentences that stand first: answers, how many comparisons were decided, what changed."""
    pairs = [pair for family in report.families for pair in family.pairs]
    judged = [pair for pair in pairs if pair.found.ratio is not None]
    past = history_sentence(report.histories)
    if not judged:
        return [*_without_comparisons(report), *([past] if past else [])]
    counts = _counts(judged, len(pairs) - len(judged))
    if report.families_left_out or any(family.left_out for family in report.families):
        counts += "; `convdyno compare` has more than are shown here"
    last = [f"{counts}.", *([past] if past else [])]
    room = MOST - len(last)
    places = grouped(judged, lambda pair: (*family_of(pair), pair.axis, *pair.values))
    questions = [*places.values()]
    if sum(any(pair.found.verdict in DIFFERENT for pair in group) for group in questions) > room:
        questions = [*grouped(judged, lambda pair: (pair.axis, *pair.values)).values()]
    first = sorted(questions, key=_prominence)[:room]
    several = len({family.machine for family in report.families}) > 1
    return [_answer(group, several) for group in first] + last


def _without_comparisons(report: ReportModel) -> list[str]:
    """What was measured, where no two cells can be compared."""
    latest = report.latest
    if not latest:
        return ["Nothing was measured."] if report.cells else []
    labels = labels_of([cell.trial for cell in latest])
    names = {cell.id: name for cell, name in zip(latest, labels, strict=True)}
    return [f"{text}." for text in findings(latest, [], names)]


def _counts(judged: Sequence[Pair], impossible: int) -> str:
    """How many comparisons there are, and how many of them were decided which way."""
    verdicts = Counter(pair.found.verdict for pair in judged)
    counted = {
        "found a difference": verdicts["faster"] + verdicts["slower"],
        "found none beyond 1 %": verdicts["equivalent"],
        "cannot be decided yet": verdicts["undecided"],
    }
    parts = [f"{count} {words}" for words, count in counted.items() if count]
    if len(judged) == 1:
        parts = [parts[0].replace("1", "it", 1)]
    elif verdicts["undecided"] == len(judged):
        parts = ["none can be decided yet"]
    elif len(parts) == 1:
        parts = [parts[0].replace(str(len(judged)), "all", 1)]
    listed = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    told = f"{noun(len(judged), 'comparison')}: {listed}"
    more = f"; {noun(impossible, 'other', 'others')} could not be made" if impossible else ""
    return told + more


def _prominence(group: Sequence[Pair]) -> tuple[bool, bool, float]:
    """A key that sorts decided questions first, then paired ones, then the largest differences."""
    decided = [pair for pair in group if pair.found.verdict in DIFFERENT]
    told = decided or group
    return not decided, not any(pair.paired for pair in told), -abs(math.log(_middle(told)))


def _answer(group: Sequence[Pair], several_machines: bool) -> str:
    """One question and what its comparisons say, the faster of the two first."""
    verdicts = Counter(pair.found.verdict for pair in group)
    won, lost = verdicts["faster"], verdicts["slower"]
    turned = lost > won or (lost == won and _middle(group) < 1)
    first = group[0]
    names = [said(cell.trial, first.axis) for cell in (first.a, first.b)]
    if first.axis == DEVICE:  # What `auto` became is told.
        names = [f"device {value}" for value in first.values]
    one, other = names[::-1] if turned else names
    where = _where(group, several_machines)
    if len(group) == 1:
        settings = ("engine", "precision", "batch")
        where += "".join(f", {said(first.a.trial, n)}" for n in settings if n != first.axis)
        return f"{_of_one(first, turned, one, other, where)}{_mind(group)}."
    count = noun(len(group), "comparison")
    if not won and not lost:
        equal = verdicts["equivalent"] == len(group)
        how = "are equally fast" if equal else "cannot be told apart"
        return f"{one} and {other} {how} in {count} ({where}){_mind(group)}."
    most = max(won, lost)
    agreeing = [pair for pair in group if pair.found.verdict == DIFFERENT[turned]]
    times = [_times(pair, turned) for pair in agreeing]
    much = between(min(times), max(times), ratio) if most > 1 else ratio(times[0])
    counted = {"slower": min(won, lost)} | {n: verdicts[n] for n in ("equivalent", "undecided")}
    rest = "".join(f", {name} in {number}" for name, number in counted.items() if number)
    share = "all" if most == len(group) else f"{most} of"
    return (
        f"{one} is faster than {other} in {share} {count} ({where}): {much} times the "
        f"images/s{rest}{_mind(agreeing)}."
    )


def _where(group: Sequence[Pair], several_machines: bool) -> str:
    """What was run where: by name, or of several how many."""
    networks, modes, machines = (
        list(dict.fromkeys(values)) for values in zip(*map(family_of, group), strict=True)
    )
    what = networks[0] if len(networks) == 1 else f"{len(networks)} networks,"
    where = f"{what} {' and '.join(MODES[mode] for mode in modes)}"
    if not several_machines:
        return where
    return f"{where}, {machines[0] if len(machines) == 1 else noun(len(machines), 'machine')}"


def _of_one(pair: Pair, turned: bool, one: str, other: str, where: str) -> str:
    found = pair.found
    if found.verdict == "undecided":
        return f"{one} and {other} cannot be told apart yet ({where})"
    low, high = found.low, found.high
    if turned:
        low, high = high and 1 / high, low and 1 / low
    how = (
        f"is faster than {other}" if found.verdict in DIFFERENT else f"and {other} are equally fast"
    )
    much = around(_times(pair, turned), low, high, ratio)
    return f"{one} {how} ({where}): {much} times the images/s"


def _times(pair: Pair, turned: bool) -> float:
    times = pair.found.ratio or 1.0
    return 1 / times if turned else times


def _middle(group: Sequence[Pair]) -> float:
    ratios = sorted(pair.found.ratio or 1.0 for pair in group)
    return ratios[len(ratios) // 2]


def _mind(group: Sequence[Pair]) -> str:
    """What to know of such an answer: that cells took no turns, and on what it rests."""
    told = [] if any(pair.paired for pair in group) else ["unpaired"]
    told += ["measured beside other work all the time"] * all(pair.disturbed for pair in group)
    told += [part for pair in group for part in pair.found.reason.split("; ") if part]
    return "".join(f"; {part}" for part in dict.fromkeys(told))
