"""How networks are trained: recipes by name, each a small derivation from another.

A recipe's numbers are its author's; every one of them can be given anew on the command line, and
all that were used are in the checkpoint and in the record.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from convdyno.errors import UnknownName
from convdyno.trial.choices import Colour, Crop, Precision, View
from convdyno.trial.schedule import Schedule
from convdyno.trial.spec import LossScale, Optimiser


class Recipe(BaseModel):
    """Everything about training but the network, the data and the engine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    note: str
    epochs: Annotated[float, Field(gt=0)] = 90.0
    batch: int | None = None
    """Images per device; None is what suits the network."""
    rate_for: int | None = None
    """The global batch that the rate is meant for, and with which it grows; None: for every one."""
    optimiser: Optimiser = Optimiser()
    schedule: Schedule = Schedule()
    warmup_from_base: bool = False
    """Whether the warm-up begins with the rate of `rate_for` images, however many there are."""
    precision: Precision = "fp32"
    loss_scale: LossScale | None = None
    crop: Crop = "auto"
    view: View = "auto"
    colour: Colour = "off"
    expected: str = ""
    """What others have published; nothing that was measured here."""

    def but(self, name: str, note: str, **changes: object) -> Recipe:
        """Another recipe that differs in some things."""
        return self.model_copy(update={"name": name, "note": note, **changes})

    def rate(self, global_batch: int) -> float:
        """The base learning rate with so many images a step."""
        return self.optimiser.rate * (global_batch / self.rate_for if self.rate_for else 1)

    def schedule_for(self, global_batch: int) -> Schedule:
        """The schedule with so many images a step."""
        if not (self.warmup_from_base and self.rate_for):
            return self.schedule
        begin = min(1.0, self.rate_for / global_batch)
        return self.schedule.model_copy(update={"warmup_from": begin})


def find(name: str) -> Recipe:
    """The recipe of that name."""
    if name not in RECIPES:
        raise UnknownName("recipe", name, RECIPES, see="`convdyno list recipes` shows all.")
    return RECIPES[name]


def suitable(network: str, data: str) -> Recipe:
    """What is usual for a network and its data when no recipe is asked for."""
    if network in ("deepmnist", "lenet", "trivial") or "mnist" in data:
        return RECIPES["deepmnist"]
    if "cifar" in data:
        return RECIPES["cifar-fast"]
    return RECIPES.get(f"nvcnn-{network.removesuffix('-nvcnn')}", RECIPES["goyal"])


def _nvcnn(rate: float, *networks: str, rate_for: int | None = None) -> list[Recipe]:
    """nvcnn's training: Nesterov, L2 on every weight, rate falling as a square, no warm-up."""
    base = Recipe(
        name="nvcnn",
        note="nvcnn: Nesterov, L2 on all",
        optimiser=Optimiser(rate=rate, momentum=0.9, nesterov=True, weight_decay=1e-4),
        rate_for=rate_for,
        schedule=Schedule(kind="poly", power=2.0),
        crop="nvcnn",
        view="squash",
    )
    return [base.but(f"nvcnn-{network}", base.note) for network in networks]


def _with_larc(recipe: Recipe, name: str, rate: float, batch: int, expected: str) -> Recipe:
    """The commands of nvcnn_hvd's authors."""
    rule = recipe.optimiser.model_copy(
        update={"rate": rate, "larc_eta": 0.003, "larc_mode": "clip"}
    )
    return recipe.but(
        name,
        "nvcnn_hvd: the same with LARC clip 0.003, loss scale 128",
        optimiser=rule,
        rate_for=batch,
        precision="fp16",
        loss_scale=128.0,
        expected=expected,
    )


_NVCNN = [
    *_nvcnn(0.03, "alexnet"),
    *_nvcnn(0.02, "vgg11", "vgg13", "vgg16", "vgg19"),
    *_nvcnn(0.04, "googlenet"),
    *_nvcnn(0.2, "inception3"),
    *_nvcnn(0.045, "inception4", "inception-resnet2"),
    *_nvcnn(0.1, "resnext50", "resnext101", "resnext152"),
    *_nvcnn(1.0, "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", rate_for=1024),
    *_nvcnn(0.001, "lenet", "overfeat", "trivial"),
]
_BY_NAME = {recipe.name: recipe for recipe in _NVCNN}
_STEPS = ((30.0, 0.1), (60.0, 0.01), (80.0, 0.001))
_GOYAL = Recipe(
    name="goyal",
    note="Goyal et al.: warm-up 5 epochs, steps at 30, 60, 80",
    epochs=90,
    rate_for=256,
    optimiser=Optimiser(rate=0.1, momentum=0.9, nesterov=True, decay_on="kernels"),
    schedule=Schedule(kind="steps", at=_STEPS, warmup=5.0),
    warmup_from_base=True,
    crop="torch",
    view="centre",
    expected="ResNet-50: 76.3 % top-1 on ImageNet (arXiv:1706.02677)",
)
_DEEPMNIST = Recipe(
    name="deepmnist",
    note="Deep MNIST: batch 50, no L2",
    epochs=5,
    batch=50,
    optimiser=Optimiser(kind="adam", rate=1e-4, weight_decay=0.0),
    crop="whole",
    view="whole",
)

RECIPES: dict[str, Recipe] = _BY_NAME | {
    recipe.name: recipe
    for recipe in (
        _with_larc(
            _BY_NAME["nvcnn-resnet50"], "nvcnn-hvd-resnet50", 2.0, 2048,
            "ResNet-50: 75.5 % top-1 on ImageNet (published by its authors)",
        ),
        _with_larc(
            _BY_NAME["nvcnn-inception3"], "nvcnn-hvd-inception3", 1.0, 1024,
            "Inception v3: 77.8 % top-1 on ImageNet (published by its authors)",
        ),
        _GOYAL,
        _GOYAL.but(
            "tf-cnn",
            "tf_cnn_benchmarks: warm-up 5 epochs, steps at 30, 60, 80",
            optimiser=Optimiser(rate=0.128, nesterov=False, decay_on="kernels"),
            warmup_from_base=False,
            crop="inception",
            view="centre-1.145",
            expected="ResNet-50: about 76 % top-1 on ImageNet (its README)",
        ),
        Recipe(
            name="keras-cifar",
            note="Keras' CIFAR ResNets: steps at 80, 120, 160, 180",
            epochs=200,
            batch=32,
            optimiser=Optimiser(kind="adam", rate=1e-3, decay_on="kernels"),
            schedule=Schedule(
                kind="steps", at=((80.0, 0.1), (120.0, 1e-2), (160.0, 1e-3), (180.0, 5e-4))
            ),
            crop="pad",
            view="whole",
            expected="ResNet-20 v1: 91.5 to 92.2 % top-1 on CIFAR-10 (Keras' example)",
        ),
        _DEEPMNIST,
        _DEEPMNIST.but(
            "cifar-fast",
            "our own: to 90 % in few epochs",
            epochs=24,
            batch=128,
            rate_for=128,
            optimiser=Optimiser(
                rate=0.2, nesterov=True, weight_decay=5e-4, decay_on="kernels"
            ),
            schedule=Schedule(kind="poly", power=1.0, warmup=3.0, warmup_from=0.1),
            precision="bf16",
            crop="pad",
            view="whole",
        ),
    )
}  # fmt: skip
"""By name; the nvcnn ones are for one network each."""
