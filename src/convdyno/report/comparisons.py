"""Cells of a store that are alike in all but one thing, and what their ratios say.

Cells of one run took turns, so their rounds are pairs. Cells of different runs on one machine are
compared all the same, and called unpaired: how the machine has changed in between is not in their
interval. Cells of unlike machines are not compared, unless the machine is what is asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from convdyno.errors import UnknownName, UsageError
from convdyno.report.cell import Cell, Place, grouped, place_of
from convdyno.report.format import between, natural, ratio_writer, said, written
from convdyno.stats.compare import Comparison, compare
from convdyno.store.certificate import Certificate
from convdyno.trial.manner import Manner
from convdyno.trial.rivalry import NO_RIVALRY, rivalry
from convdyno.trial.spec import Trial

Certificates = Mapping[tuple[str, Manner], Certificate]
"""By network and manner."""

Compared = tuple[int, int, Comparison]
"""Two cells by their number, and their ratio."""
MACHINE, DEVICE, LABEL = "machine", "device", "label."
AXES = (*(name for name in Trial.model_fields if name not in NO_RIVALRY), MACHINE)
"""Along what cells may be compared, besides labels."""
PLACES = {name: place for place, name in enumerate(Trial.model_fields)}
SHAPES = frozenset({"network", "image_size", "classes", "width", "auxiliary"})
"""Axes along which the network itself is another."""
CONDITIONS = ("device", "layout", "compiled", "threads")
"""What `auto` may become, and two engines may choose differently."""
UNJUDGED = Comparison()
MOST_OF_ALL_PAIRS = 8
"""So many values are compared each with each; more of them with one alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two cells that differ in the axis alone, the values of it, and their ratio."""

    axis: str
    """Nothing where one trial was measured twice."""
    a: Cell
    b: Cell
    values: tuple[str, str]
    found: Comparison = UNJUDGED

    @property
    def paired(self) -> bool:
        """Whether both took turns in one run."""
        return self.a.took_turns(self.b)

    @property
    def disturbed(self) -> bool:
        """Whether one of them was measured beside other work all the time."""
        return self.a.disturbed or self.b.disturbed

    @property
    def decided(self) -> bool:
        """Whether it is known which is faster, or that neither is."""
        return self.found.verdict != "undecided"

    @property
    def how(self) -> str:
        """The same in one word, for tables."""
        return "paired" if self.paired else "unpaired"

    @property
    def words(self) -> dict[str, str]:
        """The ratio, its interval and the verdict, for tables."""
        found, write = self.found, ratio_writer(self.found)
        interval = between(found.low, found.high, write)
        return {"ratio": write(found.ratio), "interval": interval, "verdict": found.verdict}

    @property
    def sentence(self) -> str:
        """The comparison in words."""
        a, b, found = self.a.trial, self.b.trial, self.found
        axes = a.differs_in(b)
        one, other = (", ".join(said(t, name) for name in axes) or t.label for t in (a, b))
        settings = ("network", "mode", "precision", "batch")
        rest = [said(a, name) for name in settings if name not in axes]
        if a.devices > 1:
            rest.append(f"{a.devices} devices")
        place = f" ({', '.join(rest)})"
        if found.ratio is None:
            return f"{one} and {other}{place}: {found.reason}"
        write = ratio_writer(found)
        much = f"{write(found.ratio)} times the images/s"
        if found.low is None or found.high is None:
            return f"{one} has {much} of {other}{place}: undecided; {found.reason}"
        told = f"{one} and {other} are {found.verdict}"
        if found.verdict in ("faster", "slower"):
            told = f"{one} is {found.verdict} than {other}"
        but = f" ({found.reason})" if found.reason else ""
        return f"{told}{place}: {much} [{write(found.low)}, {write(found.high)}]{but}"

    def conditions(self) -> dict[str, list[Any]]:
        """Settings and versions that the two do not share."""
        a, b = self.a.versions, self.b.versions
        versions = {n: [a[n], b[n]] for n in a.keys() & b.keys() if a[n] != b[n]}
        return differing([self.a, self.b]) | versions

    def flat(self) -> dict[str, Any]:
        """The pair as one row of plain values: the two cells by their values of the axis."""
        a, b, found = self.a, self.b, self.found
        return {
            **{name: getattr(a.trial, name) for name in ("network", "engine", "mode", "precision")},
            "by": self.axis,
            "a": self.values[0],
            "b": self.values[1],
            "images_per_second_a": a.images_per_second,
            "images_per_second_b": b.images_per_second,
            **{name: getattr(found, name) for name in ("ratio", "low", "high", "p")},
            **{name: getattr(found, name) for name in ("verdict", "reason", "rounds")},
            "paired": self.paired,
            "record_a": a.id,
            "record_b": b.id,
        }

    def to_axis_data(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        """The pair for machines, with the axis that was asked about."""
        data = self.to_data(numbers) | {"conditions": self.conditions()}
        return {"by": self.axis, "values": list(self.values), **data}

    def to_data(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        """The pair for machines; `numbers` are the places of cells by their id."""
        return {
            "a": numbers[self.a.id],
            "b": numbers[self.b.id],
            **comparison_data(self.found),
            "p": self.found.p,
            "paired": self.paired,
            "conditions": differing([self.a, self.b]),
        }


@dataclass(frozen=True, slots=True)
class Strangers:
    """Values of an axis that were only ever measured on unlike machines."""

    label: str
    places: tuple[tuple[str, str], ...]
    """Each value and the machine that it was measured on."""

    def __str__(self) -> str:
        places = "; ".join(f"{value} on {machine}" for value, machine in self.places)
        return f"{self.label}: not compared, unlike machines: {places}"


def check_axis(axis: str, cells: Iterable[Cell]) -> str:
    """The axis by its own name; what is none is answered with the nearest."""
    labels = {LABEL + name for cell in cells for name in cell.labels}
    name = axis if axis.startswith(LABEL) else axis.replace("-", "_")
    if name in NO_RIVALRY:
        raise UsageError(
            f"no cell is faster for its {name}: `convdyno report` shows what {name} "
            f"{'bring' if name == 'devices' else 'means'} as a curve or a ladder"
        )
    if name not in AXES and name not in labels:
        raise UnknownName("axis", axis, [*AXES, *sorted(labels)])
    return name


def pairs_along(axis: str, cells: Iterable[Cell], against: str | None = None) -> list[Pair]:
    """All pairs of measured cells that differ in the axis alone, not judged yet.

    The newest run that has both is taken, or else the newest cell of each.
    """
    groups: dict[Hashable, dict[str, list[Cell]]] = {}
    for cell in _measured(cells):
        if (value := value_of(cell, axis)) is not None:
            groups.setdefault(_rest(cell, axis), {}).setdefault(value, []).append(cell)
    return [
        _pair(axis, a, b, group) for group in groups.values() for a, b in _matches(group, against)
    ]


def strangers_along(axis: str, cells: Iterable[Cell]) -> list[Strangers]:
    """What cannot be compared because it was never measured on one machine."""
    if axis == MACHINE:
        return []
    groups: dict[Hashable, dict[str, dict[str, Cell]]] = {}
    for cell in _measured(cells):
        if (value := value_of(cell, axis)) is not None:
            places = groups.setdefault(_rest(cell, axis, anywhere=True), {})
            places.setdefault(cell.machine, {})[value] = cell
    found = []
    for places in groups.values():
        seen = {value: cell for values in places.values() for value, cell in values.items()}
        if len(seen) > 1 and all(len(values) == 1 for values in places.values()):
            where = tuple((value, cell.machine) for value, cell in seen.items())
            found.append(Strangers(_but(next(iter(seen.values())).trial, axis), where))
    return found


def family_of(pair: Pair) -> Place:
    """What is told in one table and judged together: a network, a mode, a machine."""
    network, mode, machine = place_of(pair.a)
    return network, mode, "" if pair.axis == MACHINE else machine


def judge(
    pairs: Sequence[Pair],
    certificates: Certificates,
    family: Callable[[Pair], Hashable] = family_of,
) -> list[Pair]:
    """The same pairs with their ratios, each family judged together.

    Cells of different engines or kernels are compared only with certificates that both compute
    the same function. Cells of different runs are compared unpaired.
    """
    doubts = [_doubt(pair.a.trial, pair.b.trial, certificates) for pair in pairs]
    judged = [
        replace(pair, found=Comparison(reason=why)) for pair, why in zip(pairs, doubts, strict=True)
    ]
    able = (index for index, why in enumerate(doubts) if not why)
    for places in grouped(able, lambda index: family(pairs[index])).values():
        looks = max(max(pairs[i].a.looks, pairs[i].b.looks) for i in places)
        found = compare([pairs[i].a.beside(pairs[i].b) for i in places], looks=looks)
        for index, one in zip(places, found, strict=True):
            doubt = _reservation(pairs[index], certificates)
            reason = "; ".join(filter(None, (one.reason, doubt)))
            judged[index] = replace(pairs[index], found=replace(one, reason=reason))
    return judged


def compare_cells(cells: Sequence[Cell], certificates: Certificates | None = None) -> list[Pair]:
    """All comparisons that make sense between the cells of one benchmark, as one family."""
    measured = [cell for cell in cells if cell.headline is not None]
    found = [
        Pair(axis, a, b, _values(a.trial, b.trial, axis))
        for a, b in combinations(measured, 2)
        if (axis := rivalry(a.trial, b.trial)) is not None
        and not (axis == DEVICE and value_of(a, DEVICE) == value_of(b, DEVICE))
    ]
    return judge(found, certificates or {}, family=lambda pair: None)


def value_of(cell: Cell, axis: str) -> str | None:
    """A cell's value on an axis, as one would write it; None where it has none."""
    if axis == MACHINE:
        return cell.machine
    if axis.startswith(LABEL):
        return cell.labels.get(axis.removeprefix(LABEL))
    value = getattr(cell.trial, axis)
    if axis == DEVICE and value == "auto":
        return str(cell.used(DEVICE)).partition(":")[0]
    # What an exchange costs, against none, is the scaling curve's to say.
    return None if (axis, value) == ("exchange", "independent") else written(value)


def differing(cells: Sequence[Cell]) -> dict[str, list[Any]]:
    """The conditions that were not the same for all of these cells, with each cell's own."""
    found = {}
    for name in CONDITIONS:
        values = [cell.settings.get(name) for cell in cells]
        if len({value for value in values if value is not None}) > 1:
            found[name] = values
    return found


def comparison_data(found: Comparison) -> dict[str, Any]:
    """A ratio for machines, unrounded."""
    return {
        "ratio": found.ratio,
        "interval": [found.low, found.high],
        "level": found.level,
        "rounds": found.rounds,
        "verdict": found.verdict,
        "reason": found.reason,
    }


def price_of_keras(pair: Pair) -> str:
    """What Keras adds to a step of the framework under it, where two cells differ in just that."""
    a, b, found = pair.a.trial, pair.b.trial, pair.found
    if found.ratio is None or found.low is None or found.high is None:
        return ""
    times, low, high = found.ratio, found.low, found.high
    if a.engine == f"keras/{b.engine}":
        times, low, high = 1 / times, 1 / high, 1 / low
        a, b = b, a
    if b.engine != f"keras/{a.engine}":
        return ""
    more, least, most = (100 * (one - 1) for one in (times, low, high))
    many = f" on each of {a.devices} devices" if a.devices > 1 else ""
    return (
        f"the price of Keras on {a.engine} ({a.precision}, batch {a.batch}{many}): "
        f"{more:+.1f} % [{least:+.1f}, {most:+.1f}] time a step"
    )


def _values(a: Trial, b: Trial, axis: str) -> tuple[str, str]:
    if not axis:
        return "", ""
    return written(getattr(a, axis)), written(getattr(b, axis))


def _measured(cells: Iterable[Cell]) -> Iterator[Cell]:
    return (cell for cell in cells if cell.headline is not None and not cell.role)


def _rest(cell: Cell, axis: str, *, anywhere: bool = False) -> Hashable:
    """All that cells must share to be compared along an axis."""
    digest = cell.network.digest if cell.network and axis not in SHAPES else None
    machine = None if anywhere or axis == MACHINE else cell.machine
    values = tuple(cell.trial.__dict__.values())
    place = PLACES.get(axis, len(values))
    return values[:place] + values[place + 1 :], digest, machine


def _matches(group: Mapping[str, list[Cell]], against: str | None) -> Iterator[tuple[str, str]]:
    """Which values of a group meet: all, or where there are many each with the fastest."""
    values = sorted(group, key=natural)
    if against is None and len(values) > MOST_OF_ALL_PAIRS:
        against = max(values, key=lambda value: group[value][-1].images_per_second or 0.0)
    if against is None:
        return combinations(values, 2)
    return ((value, against) for value in values if value != against and against in group)


def _pair(axis: str, a: str, b: str, group: Mapping[str, list[Cell]]) -> Pair:
    one, other = group[a], group[b]
    runs = {cell.run_name: cell for cell in other}
    common = [cell for cell in one if cell.run_name in runs]
    mine = (common or one)[-1]
    return Pair(axis, mine, runs[mine.run_name] if common else other[-1], (a, b))


def _doubt(a: Trial, b: Trial, certificates: Certificates) -> str:
    """Why two cells may not be compared; nothing if they may."""
    if (a.engine, a.kernels) == (b.engine, b.kernels):
        return ""
    for trial in (a, b):
        certificate = _certificate(trial, certificates)
        proof = certificate.proof(trial.engine) if certificate else None
        if proof is None:
            how = Manner.of(trial).words
            return f"not comparable: no certificate for {trial.engine} ({how})"
        if not proof.passed:
            return f"not comparable: {trial.engine} failed its certificate: {proof.reason}"
    return ""


def _certificate(trial: Trial, certificates: Certificates) -> Certificate | None:
    """That of how a trial computed, or else of the same kernels as usual."""
    own = certificates.get((trial.network, Manner.of(trial)))
    return own or certificates.get((trial.network, Manner(kernels=trial.kernels)))


def _reservation(pair: Pair, certificates: Certificates) -> str:
    """What to know of the certificates that a ratio rests on; nothing if they are of what ran."""
    a, b = pair.a.trial, pair.b.trial
    if (a.engine, a.kernels) == (b.engine, b.kernels):
        return ""
    other, unlike = [], []
    for cell in (pair.a, pair.b):
        certificate = _certificate(cell.trial, certificates)
        proof = certificate.proof(cell.trial.engine) if certificate else None
        if certificate is None or proof is None:
            continue
        if certificate.manner != Manner.of(cell.trial):
            unlike.append(f"{cell.trial.engine} ({certificate.manner.words})")
        made = {"convdyno": proof.maker.convdyno, **proof.maker.versions}
        ran = {"convdyno": cell.convdyno, **cell.versions}
        if not proof.maker.sources or any(made[n] != ran[n] for n in made.keys() & ran.keys()):
            other.append(cell.trial.engine)
    told = [f"certified by other code than was measured: {', '.join(other)}"] if other else []
    told += [f"certified in another manner only: {', '.join(unlike)}"] if unlike else []
    return "; ".join(told)


def _but(trial: Trial, axis: str) -> str:
    names = ("network", "engine", "mode", "precision", "batch")
    return ", ".join(said(trial, name) for name in names if name != axis)
