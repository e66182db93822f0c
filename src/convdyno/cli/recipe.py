"""The words of `convdyno train` into what to train: a recipe, and what was given anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from convdyno.cli import parse
from convdyno.cli.ranks import shared_out
from convdyno.errors import UsageError

if TYPE_CHECKING:
    from convdyno.launch.crew import Launcher
    from convdyno.trial.recipes import Recipe
    from convdyno.trial.schedule import Schedule
    from convdyno.trial.training import Training

NUMBERS = ("rate", "momentum", "weight_decay", "label_smoothing")
SWITCHES = ("ema", "clip_norm", "larc_eta")
"""Numbers of an update rule that may also be off."""
SCHEDULES = ("constant", "poly", "cosine", "steps")
EXCHANGES = ("default", "horovod")
"""How devices that train one network may average gradients."""


def make_training(there: Launcher, given: dict[str, Any]) -> Training:
    """The recipe with everything that was given anew, fitted to the data and to the devices."""
    from convdyno.cli.cells import look_into
    from convdyno.data.detect import splits
    from convdyno.engines import registry
    from convdyno.trial import recipes, spec
    from convdyno.trial.spec import make_trial
    from convdyno.trial.training import Training
    from convdyno.zoo.registry import build, find

    entry = find(given["network"])
    chosen = (
        recipes.find(given["recipe"])
        if given["recipe"]
        else recipes.suitable(given["network"], given["data"])
    )
    facts, _ = look_into(given["data"], "train")
    engines = registry.chosen(given["engine"])
    if len(engines) != 1:
        raise UsageError(f"training is by one engine, not by {', '.join(engines)}")
    words = {
        name: given[name] if given[name] is not None else getattr(chosen, name)
        for name in ("precision", "crop", "view", "colour")
    }
    batch = _read(given, "batch", parse.whole("--batch")) or chosen.batch or entry.batch
    spread = shared_out(there, given["devices"], given["cores"], given["device"])
    together = batch * spread["devices"]
    classes = _read(given, "num_classes", parse.whole("--num-classes", 2))
    if classes is not None and classes < len(facts.classes):
        raise UsageError(
            f"{given['data']} has {len(facts.classes)} classes, more than --num-classes {classes}"
        )
    if given["until"] is not None and "validation" not in splits(given["data"]):
        raise UsageError(f"--until needs test images, and {given['data']} has none")
    scale = given["loss_scale"]
    if scale is None:
        scale = chosen.loss_scale if words["precision"] == "fp16" else None
    elif scale != "dynamic":
        scale = parse.number("--loss-scale")(scale)
    trial = make_trial(
        network=given["network"],
        engine=engines[0],
        batch=batch,
        data=given["data"],
        classes=classes or max(2, len(facts.classes)),
        loss_scale=scale,
        optimiser=_optimiser(given, chosen, together),
        auxiliary=given["auxiliary"],
        resize=given["resize"],
        image_size=_read(given, "image_size", parse.image_size),
        width=parse.number("--width")(given["width"]),
        device=given["device"],
        kernels=given["kernels"],
        threads=None if given["threads"] == "auto" else parse.whole("--threads")(given["threads"]),
        on_bad=given["on_bad"],
        exchange=_exchange(given["exchange"]),
        bucket_mb=_read(given, "bucket_mb", parse.number("--bucket-mb")),
        compress=parse.one_of("compress", get_args(spec.Compress))(given["compress"]),
        accumulate=parse.whole("--accumulate")(given["accumulate"]),
        seed=given["seed"],
        **spread,
        **words,
    )
    build(trial.network, trial.image_size, trial.classes, trial.width, trial.auxiliary)
    epochs = _read(given, "epochs", parse.number("--epochs")) or chosen.epochs
    return Training(
        trial=trial,
        recipe=chosen.name,
        epochs=epochs,
        schedule=_schedule(given, chosen, together),
        evaluate_every=parse.number("--eval-every")(given["eval_every"]),
        until=_target(given["until"]),
    )


def _read(given: dict[str, Any], name: str, read: Any) -> Any:
    return None if given[name] is None else read(given[name])


def _exchange(word: str) -> str:
    if word == "independent":
        raise UsageError(
            "independent devices train a network each, not one together: "
            "--exchange independent is for bench"
        )
    return parse.one_of("exchange", EXCHANGES)(word)


def _optimiser(given: dict[str, Any], recipe: Recipe, together: int) -> dict[str, Any]:
    from convdyno.trial import spec

    rule = recipe.optimiser.model_dump()
    rule["rate"] = recipe.rate(together)
    if given["optimiser"] is not None:
        rule["kind"] = parse.one_of("optimiser", get_args(spec.OptimiserKind))(given["optimiser"])
    for name in (*NUMBERS, *SWITCHES):
        word, option = given[name], f"--{name.replace('_', '-')}"
        if word == "off" and name in SWITCHES:
            rule[name] = None
        elif word is not None:
            zero = name in ("momentum", "weight_decay", "label_smoothing")
            rule[name] = parse.number(option, zero=zero)(word)
    for name in ("nesterov", "decay_on", "larc_mode"):
        if given[name] is not None:
            rule[name] = given[name]
    return rule


def _schedule(given: dict[str, Any], recipe: Recipe, together: int) -> Schedule:
    made = recipe.schedule_for(together)
    if given["schedule"] is not None:
        made = made.model_copy(update=_course(given["schedule"]))
    warm = {
        name: parse.number(f"--{name.replace('_', '-')}", zero=True)(given[name])
        for name in ("warmup", "warmup_from")
        if given[name] is not None
    }
    return made.model_copy(update=warm)


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
