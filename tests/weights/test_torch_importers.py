"""Weights of real torchvision and timm models compute the same in the zoo's networks."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from foreign_models import (
    CLOSE,
    calm,
    difference,
    enliven,
    images_for,
    our_logits,
    timm,
    torch_logits,
)
from foreign_models import torchvision as torchvision_models

from convdyno.zoo.foreign.convert import foreign_names, from_foreign, recognise, to_foreign
from convdyno.zoo.registry import build


class Case(NamedTuple):
    library: str
    model: str
    network: str
    side: int
    slow: bool = False


TRUNK = {"aux_logits": False, "init_weights": False, "transform_input": False}
OPTIONS: dict[str, dict[str, Any]] = {"googlenet": TRUNK, "inception_v3": TRUNK}
COMPUTED = [
    Case("torchvision", "resnet18", "resnet18", 64),
    Case("torchvision", "resnet50", "resnet50-v1.5", 64),
    Case("torchvision", "googlenet", "googlenet-torchvision", 96),
    Case("torchvision", "inception_v3", "inception3-torchvision", 139, slow=True),
    Case("torchvision", "alexnet", "alexnet", 224, slow=True),
    Case("torchvision", "vgg11", "vgg11", 224, slow=True),
    Case("timm", "resnet18", "resnet18", 64),
    Case("torchvision", "resnext50_32x4d", "resnext50", 64),
    Case("timm", "resnetv2_50", "resnet50-v2", 64),
    Case("timm", "seresnet50", "se-resnet50", 64),
    Case("torchvision", "densenet121", "densenet121", 64),
    Case("torchvision", "squeezenet1_0", "squeezenet1.0", 64),
    Case("torchvision", "squeezenet1_1", "squeezenet1.1", 64),
    Case("torchvision", "mobilenet_v2", "mobilenet2", 64),
    Case("torchvision", "mobilenet_v3_large", "mobilenet3-large", 64),
    Case("torchvision", "mobilenet_v3_small", "mobilenet3-small", 64),
    Case("torchvision", "mnasnet1_0", "mnasnet1", 64),
    Case("torchvision", "shufflenet_v2_x1_0", "shufflenet2-1.0", 64),
    Case("torchvision", "efficientnet_b0", "efficientnet-b0", 64),
    Case("torchvision", "efficientnet_v2_s", "efficientnet2-s", 64),
    Case("torchvision", "regnet_x_3_2gf", "regnetx-3.2", 64),
    Case("torchvision", "regnet_y_3_2gf", "regnety-3.2", 64),
    Case("torchvision", "convnext_tiny", "convnext-tiny", 64),
    Case("timm", "inception_v4", "inception4-slim", 139, slow=True),
    Case("timm", "inception_resnet_v2", "inception-resnet2-slim", 139, slow=True),
    Case("timm", "vgg11", "vgg11", 224, slow=True),
]
NAMED = [
    *(Case("torchvision", f"vgg{n}", f"vgg{n}", 224) for n in (13, 16, 19)),
    *(Case("timm", f"vgg{n}", f"vgg{n}", 224) for n in (13, 16, 19)),
    Case("torchvision", "resnet34", "resnet34", 224),
    Case("timm", "resnet34", "resnet34", 224),
    *(Case("torchvision", f"resnet{n}", f"resnet{n}-v1.5", 224) for n in (101, 152)),
    *(Case("timm", f"resnet{n}", f"resnet{n}-v1.5", 224) for n in (50, 101, 152)),
    *(Case("timm", f"resnetv2_{n}", f"resnet{n}-v2", 224) for n in (101, 152)),
    *(Case("timm", f"resnext{n}_32x4d", f"resnext{n}", 224) for n in (50, 101)),
    Case("timm", "inception_v3", "inception3-torchvision", 299),
    Case("torchvision", "wide_resnet50_2", "wide-resnet50-2", 224),
    Case("timm", "wide_resnet50_2", "wide-resnet50-2", 224),
    *(Case("torchvision", f"densenet{n}", f"densenet{n}", 224) for n in (169, 201)),
    Case("timm", "densenet121", "densenet121", 224),
]


def name_of(case: Case) -> str:
    return f"{case.library}-{case.model}"


def make(case: Case, classes: int = 10) -> Any:
    """A model that has no values yet."""
    import torch

    # torchvision's RegNets compute their widths with torch.
    with torch.device("cpu" if case.model.startswith("regnet") else "meta"):
        if case.library == "timm":
            return timm().create_model(case.model, num_classes=classes)
        maker = getattr(torchvision_models(), case.model)
        return maker(weights=None, num_classes=classes, **OPTIONS.get(case.model, {}))


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.slow] * c.slow, id=name_of(c)) for c in COMPUTED]
)
def test_the_library_and_the_zoo_answer_the_same(case: Case) -> None:
    import torch

    blueprint = build(case.network, (case.side, case.side), 10)
    images = images_for(blueprint)
    model = enliven(make(case))
    if case.network.startswith("efficientnet"):
        model = calm(model, images)
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    if (case.library, case.model) != ("timm", "resnet18"):  # torchvision's names are the same.
        assert recognise(state, blueprint) == case.library

    weights = from_foreign(state, blueprint, case.library)
    theirs = torch_logits(model, images)
    assert difference(our_logits(blueprint, weights, images), theirs) < CLOSE

    back = to_foreign(weights, blueprint, case.library)
    if any(name.endswith("/scale") for name in weights) or "norm" not in str(list(weights)):
        assert {n for n in state if not n.endswith("num_batches_tracked")} == back.keys()
        assert all(np.array_equal(array, state[name]) for name, array in back.items())
    else:
        # The scales were folded into the variances: other weights, the same function.
        model.load_state_dict({name: torch.from_numpy(array) for name, array in back.items()})
        assert difference(torch_logits(model, images), theirs) < CLOSE


@pytest.mark.parametrize("case", NAMED, ids=name_of)
def test_the_larger_ones_have_the_same_names_and_shapes(case: Case) -> None:
    state = make(case, 1000).state_dict()
    theirs = {n: tuple(t.shape) for n, t in state.items() if not n.endswith("num_batches_tracked")}
    blueprint = build(case.network)
    assert set(foreign_names(blueprint, case.library).values()) == theirs.keys()
    empty = {name: np.empty(shape, np.float32) for name, shape in blueprint.weights.items()}
    ours = to_foreign(empty, blueprint, case.library)
    assert {name: array.shape for name, array in ours.items()} == theirs
