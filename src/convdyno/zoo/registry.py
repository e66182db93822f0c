"""The named networks, and any function of your own that draws one.

    @network("tiny", image=(32, 32, 3), classes=10, note="three layers")
    def tiny(net: Draft, classes: int) -> Blueprint:
        return net.image.conv_relu(16, 3, pad=1).mean().logits(classes).done()

In the zoo that makes a name; elsewhere the network is called `package.module:tiny`.
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
import sys
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from convdyno.blueprint.draft import Draft
from convdyno.blueprint.graph import Blueprint
from convdyno.blueprint.ops import Pair
from convdyno.errors import BadBlueprint, ConvdynoError, UnknownName, UsageError, closest

FAMILIES = (
    "small",
    "alexnet",
    "overfeat",
    "vgg",
    "googlenet",
    "inception3",
    "inception4",
    "resnet",
    "resnet_v2",
    "resnext",
    "cifar",
    "densenet",
    "squeezenet",
    "mobilenet",
    "shufflenet",
    "efficientnet",
    "regnet",
    "convnext",
)
"""The modules of the zoo, in the order in which their networks are listed."""

Drawing = Callable[..., Blueprint]
"""`(net: Draft, classes: int) -> Blueprint`; one more argument `auxiliary: bool` says that the
network can have auxiliary heads."""

SMALL_WIDTH, SMALL_CLASSES, SMALL_SIDE = 0.125, 10, 64
"""Of the small form of a network."""

Image = tuple[int, int, int]
OptimiserKind = Literal["sgd", "adam"]

_ZOO: dict[str, Network] = {}


@dataclass(frozen=True, slots=True)
class Network:
    """A network that can be built, and what it is usually run with."""

    name: str
    family: str
    draw: Drawing
    image: Image = (224, 224, 3)
    """Height, width and channels that it was made for."""
    classes: int = 1000
    batch: int = 32
    """Images per device and step that suit a CPU or a small GPU."""
    paper: str = ""
    note: str = ""
    optimiser: OptimiserKind = "sgd"

    @property
    def auxiliary(self) -> bool:
        """Whether it can have auxiliary heads."""
        try:
            return "auxiliary" in inspect.signature(self.draw).parameters
        except (TypeError, ValueError):
            return False

    def __call__(self, net: Draft, classes: int, **options: bool) -> Blueprint:
        return self.draw(net, classes, **options)


def network(
    name: str,
    *,
    image: Image = (224, 224, 3),
    classes: int = 1000,
    batch: int = 32,
    paper: str = "",
    note: str = "",
    optimiser: OptimiserKind = "sgd",
) -> Callable[[Drawing], Network]:
    """Make a network of a function `(net, classes) -> Blueprint`; the zoo's own go on its list."""

    def register(draw: Drawing) -> Network:
        package, _, family = getattr(draw, "func", draw).__module__.rpartition(".")
        entry = Network(name, family, draw, image, classes, batch, paper, note, optimiser)
        if package == __package__:
            assert name not in _ZOO, f"two networks are called {name}"
            _ZOO[name] = entry
        return entry

    return register


def networks() -> dict[str, Network]:
    """The zoo, by name."""
    for family in FAMILIES:
        importlib.import_module(f"{__package__}.{family}")
    return dict(sorted(_ZOO.items(), key=lambda item: FAMILIES.index(item[1].family)))


def find(name: str) -> Network:
    """The network of that name, or `package.module:function` as a network of your own."""
    if ":" in name:
        return _own(name)
    zoo = networks()
    if name not in zoo:
        raise UnknownName(
            "network", name, zoo, see=f"`convdyno list networks` shows all {len(zoo)}."
        )
    return zoo[name]


def build(
    name: str,
    image_size: Pair | None = None,
    classes: int | None = None,
    width: float = 1.0,
    auxiliary: bool = False,
) -> Blueprint:
    """The blueprint of a network, for its own image size and classes unless others are given."""
    entry = find(name)
    if auxiliary and not entry.auxiliary:
        having = ", ".join(n for n, other in networks().items() if other.auxiliary)
        raise UsageError(f"{name} has no auxiliary heads; these have: {having}")
    if classes is not None and classes < 1:
        raise UsageError(f"a network needs at least one class, not {classes}")
    if not 0 < width < math.inf:
        raise UsageError(f"the width must be a positive number, not {width}")

    def of_size(height: int, width_: int) -> Blueprint:
        net = Draft(entry.name, (height, width_, entry.image[2]), width)
        return _draw(entry, net, classes or entry.classes, auxiliary)

    own = entry.image[:2]
    size = image_size or own
    try:
        blueprint = of_size(*size)
    except BadBlueprint as wrong:
        raise _for_size(entry, size, wrong, lambda side: of_size(side, side)) from None
    if image_size and blueprint.image[:2] != image_size:
        raise UsageError(f"{name} takes no other image size than {_by(blueprint.image[:2])}")
    if classes and blueprint.classes != classes:
        raise UsageError(f"{name} has {blueprint.classes} classes and cannot have {classes}")
    return blueprint


def small_form(name: str, *, auxiliary: bool = False) -> Blueprint:
    """The same graph with an eighth of the channels, ten classes and the smallest images that leave
    batch norm something to average: quick to compute everywhere."""
    own = min(find(name).image[:2])

    def square(side: int) -> Blueprint:
        return build(name, (side, side), SMALL_CLASSES, SMALL_WIDTH, auxiliary)

    return square(min(own, max(SMALL_SIDE, round(1.4 * _smallest(square, own)))))


def _draw(entry: Network, net: Draft, classes: int, auxiliary: bool) -> Blueprint:
    try:
        result: object = entry.draw(net, classes, **({"auxiliary": True} if auxiliary else {}))
    except ConvdynoError:
        raise
    except (Exception, SystemExit) as wrong:
        raise UsageError(f"{entry.name} could not be built: {_line(wrong)}") from wrong
    if not isinstance(result, Blueprint):
        raise UsageError(
            f"{entry.name} gave something of the type {type(result).__name__}, not a blueprint: "
            "end it with `return x.logits(classes).done()`"
        )
    return result


def _for_size(
    entry: Network, size: Pair, wrong: BadBlueprint, square: Callable[[int], Blueprint]
) -> BadBlueprint:
    """The error told in terms of the image size, if that is what it depends on."""
    own = entry.image[:2]
    if size == own or not _works(square, max(own)):
        return wrong
    smallest = _smallest(square, max(own))
    reason = str(wrong).removeprefix(f"{entry.name}: ").removesuffix(": the image is too small")
    return BadBlueprint(
        f"{entry.name} cannot be built for images of {_by(size)}: {reason}; "
        f"its own size is {_by(own)}; the smallest square that works is {smallest}"
    )


def _smallest(square: Callable[[int], Blueprint], most: int) -> int:
    """The smallest side that a network can be built for, or else `most`."""
    return 1 + bisect_left(range(1, most), True, key=partial(_works, square))


def _works(square: Callable[[int], Blueprint], side: int) -> bool:
    try:
        square(side)
    except BadBlueprint:
        return False
    return True


def _own(spec: str) -> Network:
    name, _, function = spec.partition(":")
    if not name or not function:
        raise UsageError(f"a network of your own is package.module:function, not {spec!r}")
    try:
        here = os.getcwd()  # noqa: PTH109
        if here not in sys.path:
            sys.path.insert(0, here)
        module = importlib.import_module(name)
    except (Exception, SystemExit) as wrong:
        missing = wrong.name if isinstance(wrong, ModuleNotFoundError) else None
        if missing and f"{name}.".startswith(f"{missing}."):
            raise UsageError(
                f"there is no module {missing!r} for the network {spec!r}, "
                "neither in this folder nor installed"
            ) from None
        raise UsageError(f"{name!r} cannot be imported: {_line(wrong)}") from wrong
    if function not in vars(module):
        near = closest(function, (k for k, v in vars(module).items() if callable(v)))
        hint = f". Did you mean {near!r}?" if near else ""
        raise UsageError(f"the module {name!r} has no function {function!r}{hint}")
    found = vars(module)[function]
    if isinstance(found, Network):
        return replace(found, name=spec)
    if not callable(found):
        kind = type(found).__name__
        raise UsageError(f"{spec!r} is of the type {kind}, not a function of (net, classes)")
    return Network(spec, name, found)


def _line(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _by(size: tuple[int, ...]) -> str:
    return "x".join(map(str, size))
