"""What to train: a recipe, and what was given anew."""

from __future__ import annotations

from typing import Any

from convdyno.app.cells import classes_of, one_value, shared_out
from convdyno.app.requests import TrainRequest
from convdyno.data.detect import splits
from convdyno.engines import registry
from convdyno.errors import UsageError
from convdyno.launch.launcher import Launcher
from convdyno.trial import axes, parse, recipes
from convdyno.trial.recipes import Recipe
from convdyno.trial.schedule import Schedule
from convdyno.trial.spec import make_trial
from convdyno.trial.training import Training
from convdyno.zoo.registry import build, find

FROM_RECIPE = ("precision", "crop", "view", "colour")
NUMBERS = ("momentum", "weight_decay", "label_smoothing")
SWITCHES = ("ema", "clip_norm", "larc_eta")
"""Numbers of an update rule that may also be off."""
SCHEDULES = ("constant", "poly", "cosine", "steps")
DECIDED = ("network", "engine", "data", "optimiser", "rate", "devices", "cores")
"""Axes of training that are more than their value."""


def make_training(there: Launcher, request: TrainRequest) -> Training:
    """The recipe with everything that was given anew, fitted to the data and to the devices."""
    network, data, given = request.network, request.data, request.axes
    entry = find(network)
    recipe = request.recipe
    chosen = recipes.find(recipe) if recipe else recipes.suitable(network, data)
    values = {
        axis.name: one_value(axis.name, given)
        for axis in axes.AXES
        if axis.in_command("train") and axis.name not in DECIDED
    }
    if values["exchange"] == "independent":
        raise UsageError(
            "independent devices train a network each, not one together: "
            "--exchange independent is for bench"
        )
    classes = classes_of(data, "train", values["classes"])
    engines = registry.chosen(given.get("engine"))
    if len(engines) != 1:
        raise UsageError(f"training is by one engine, not by {', '.join(engines)}")
    for name in FROM_RECIPE:
        if name not in given:
            values[name] = getattr(chosen, name)
    if request.until is not None and "validation" not in splits(data):
        raise UsageError(f"--until needs test images, and {data} has none")
    if "loss_scale" not in given and values["precision"] == "fp16":
        values["loss_scale"] = chosen.loss_scale
    batch = values["batch"] or chosen.batch or entry.batch
    if batch == axes.MAX:
        axes.find("batch").read(batch)
    spread = shared_out(there, given)
    together = batch * spread["devices"]
    about = {
        "network": network,
        "engine": engines[0],
        "data": data,
        "batch": batch,
        "classes": classes,
        "optimiser": _optimiser(request, chosen, together),
    }
    trial = make_trial(**values | spread | about)
    build(trial.network, trial.image_size, trial.classes, trial.width, trial.auxiliary)
    return Training(
        trial=trial,
        recipe=chosen.name,
        epochs=_number(request, "epochs") or chosen.epochs,
        schedule=_schedule(request, chosen, together),
        evaluate_every=_number(request, "eval_every"),
        until=_target(request.until),
    )


def _number(request: TrainRequest, name: str, *, zero: bool = False) -> Any:
    """A number of the request, if it was given."""
    value = getattr(request, name)
    option = f"--{name.replace('_', '-')}"
    return None if value is None else parse.number(option, zero=zero)(axes.word(value))


def _optimiser(request: TrainRequest, recipe: Recipe, together: int) -> dict[str, Any]:
    rule = recipe.optimiser.model_dump() | {"rate": recipe.rate(together)}
    rule |= {
        field: one_value(name, request.axes)
        for name, field in (("optimiser", "kind"), ("rate", "rate"))
        if name in request.axes
    }
    for name in (*NUMBERS, *SWITCHES):
        if getattr(request, name) == "off" and name in SWITCHES:
            rule[name] = None
        elif getattr(request, name) is not None:
            rule[name] = _number(request, name, zero=name in NUMBERS)
    for name in ("nesterov", "decay_on", "larc_mode"):
        if getattr(request, name) is not None:
            rule[name] = getattr(request, name)
    return rule


def _schedule(request: TrainRequest, recipe: Recipe, together: int) -> Schedule:
    made = recipe.schedule_for(together)
    if request.schedule is not None:
        made = made.model_copy(update=_course(request.schedule))
    warm = {name: _number(request, name, zero=True) for name in ("warmup", "warmup_from")}
    return made.model_copy(update={n: value for n, value in warm.items() if value is not None})


def _course(word: str) -> dict[str, Any]:
    """`cosine`, `poly:1` or `steps:30=0.1;60=0.01` as fields of a schedule."""
    kind, colon, rest = word.partition(":")
    kind = parse.one_of("schedule", SCHEDULES)(kind)
    if kind == "poly" and colon:
        return {"kind": kind, "power": parse.number("--schedule poly:")(rest)}
    if kind == "steps":
        number = parse.number("--schedule steps:", zero=True)
        pairs = [part.partition("=") for part in rest.split(";")]
        at = tuple((number(epoch), number(times)) for epoch, _, times in pairs)
        epochs = [epoch for epoch, _ in at]
        if epochs != sorted(set(epochs)):
            raise UsageError(f"the epochs of --schedule must rise, and in {word!r} they do not")
        return {"kind": kind, "at": at}
    if colon:
        raise UsageError(f"--schedule {kind} takes nothing after a colon, not {rest!r}")
    return {"kind": kind}


def _target(word: str | None) -> float | None:
    if word is None:
        return None
    name, _, value = word.partition("=")
    if name != "top1" or not value:
        raise UsageError(f"--until is a target such as top1=0.90, not {word!r}")
    return parse.share("--until")(value)
