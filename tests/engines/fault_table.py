"""The table of faults: every op and every update rule, wrong in one thing at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from faults import ADAM, Fault

from convdyno.blueprint.graph import Head
from convdyno.blueprint.ops import Dropout
from convdyno.trial.manner import UpdateRule


def times(factor: float) -> Callable[[Any], Any]:
    return lambda value: value * factor


def plus(more: float) -> Callable[[Any], Any]:
    return lambda value: value + more


def no(value: Any) -> Any:
    return value * 0


def flipped(kernel: Any) -> Any:
    return kernel[::-1, ::-1].copy()


GONE = Dropout(0.0)
"""An op that does nothing."""
FAULTS = [
    # Convolutions.
    Fault("conv: padding moved down", "residual", "'conv2' (Conv)", "conv2", {"pad": (2, 0, 1, 1)}),
    Fault("conv: padding moved right", "residual", "'conv3' (Conv)", "conv3",
          {"pad": (1, 1, 0, 2)}),
    Fault("conv: padding on the other side", "lopsided_convs", "'conv1' (Conv)", "conv1",
          {"pad": (1, 0, 1, 0)}),
    Fault("conv: kernel turned round", "plain", "'conv2' (Conv)", loads={"conv2/kernel": flipped}),
    Fault("conv: bias left out", "plain", "'conv1' (Conv)", loads={"conv1/bias": no}),
    Fault("conv: bias 1 % off in use", "lopsided_convs", "'conv1' (Conv)", only="infer",
          loads={"conv1/bias": times(1.01)}),
    Fault("conv: groups exchanged", "grouped", "'conv1' (Conv)",
          loads={"conv1/kernel": lambda k: np.roll(k, 4, axis=3)}),
    Fault("conv: a depthwise kernel turned round", "grouped", "'conv2' (Conv)",
          loads={"conv2/kernel": flipped}),
    Fault("conv: kernel 0.1 % off in one branch", "branching", "'conv4' (Conv)",
          loads={"conv4/kernel": times(1.001)}),
    Fault("conv: a strided 1x1's kernel 0.1 % off", "residual", "'conv5' (Conv)",
          loads={"conv5/kernel": times(1.001)}),
    # Batch norm.
    Fault("norm: epsilon x 10", "residual", "'norm2' (Norm)", "norm2", {"eps": 1e-4}),
    Fault("norm: epsilon x 10 in training only", "residual", "'norm2' (Norm)", "norm2",
          {"eps": 1e-4}, only="train"),
    Fault("norm: epsilon x 1.1 in training only", "residual", "'norm5' (Norm)", "norm5",
          {"eps": 1.1e-5}, only="train"),
    Fault("norm: epsilon x 1.1 in use only", "widened", "'norm1' (Norm)", "norm1",
          {"eps": 1.1e-5}, only="infer"),
    Fault("norm: epsilon x 2 without a scale", "grouped", "'norm1' (Norm)", "norm1", {"eps": 2e-3}),
    Fault("norm: decay 0.89", "residual", "'norm4' (Norm)", "norm4", {"decay": 0.89}),
    Fault("norm: decay 0.99", "widened", "'norm2' (Norm)", "norm2", {"decay": 0.99}),
    Fault("norm: scale left out", "residual", "'norm3' (Norm)",
          loads={"norm3/scale": lambda s: s**0}),
    Fault("norm: offset left out", "residual", "'norm1' (Norm)", loads={"norm1/offset": no}),
    Fault("norm: mean left out in use", "residual", "'norm1' (Norm)", only="infer",
          loads={"norm1/mean": no}),
    Fault("norm: unbiased variance in use", "residual", "'norm6' (Norm)", only="infer",
          loads={"norm6/variance": times(64 / 63)}),
    Fault("norm: unbiased variance kept", "residual", "'norm6' (Norm)",
          spoilt={"statistics/norm6/variance": times(64 / 63)}),
    Fault("norm: running mean stands still", "widened", "'norm3' (Norm)",
          spoilt={"statistics/norm3/mean": no}),
    Fault("norm: gradient of a scale lost", "residual", "'norm2' (Norm)",
          spoilt={"gradient/norm2/scale": no}),
    Fault("norm: gradient of an offset 1 % off", "widened", "'norm1' (Norm)",
          spoilt={"gradient/norm1/offset": times(1.01)}),
    # Activations.
    Fault("act: ReLU6 for ReLU", "plain", "'act1' (Act)", "act1", {"kind": "relu6"}),
    Fault("act: ReLU6 for ReLU on a vector", "plain", "'act3' (Act)", "act3", {"kind": "relu6"}),
    Fault("act: ReLU6 for ReLU after a sum", "residual", "'act3' (Act)", "act3", {"kind": "relu6"}),
    Fault("act: ReLU6 for ReLU in training only", "residual", "'act6' (Act)", "act6",
          {"kind": "relu6"}, only="train"),
    Fault("act: ReLU for ReLU6", "grouped", "'act1' (Act)", "act1", {"kind": "relu"}),
    Fault("act: ReLU left out", "residual", "'act2' (Act)", "act2", op=GONE),
    Fault("act: ReLU leaks 0.1 %", "plain", "'act2' (Act)", "act2",
          {"kind": "leaky", "slope": 0.001}),
    Fault("act: slope 0.11 for 0.1", "lopsided_convs", "'act1' (Act)", "act1", {"slope": 0.11}),
    Fault("act: leaky does not leak", "grouped", "'act3' (Act)", "act3", {"kind": "relu"}),
    Fault("act: tanh left out", "lopsided_convs", "'act2' (Act)", "act2", op=GONE),
    Fault("act: sigmoid for tanh", "lopsided_convs", "'act2' (Act)", "act2", {"kind": "sigmoid"}),
    Fault("act: sigmoid left out", "lopsided_convs", "'act3' (Act)", "act3", op=GONE),
    # Pools.
    Fault("pool: an average for a maximum", "plain", "'pool2' (Pool)", "pool2",
          {"kind": "average"}),
    Fault("pool: a maximum for an average", "lopsided_pools", "'pool4' (Pool)", "pool4",
          {"kind": "max"}),
    Fault("pool: padding counted", "lopsided_pools", "'pool2' (Pool)", "pool2",
          {"count_pad": True}),
    Fault("pool: padding not counted", "lopsided_pools", "'pool5' (Pool)", "pool5",
          {"count_pad": False}),
    Fault("pool: padding on the other side", "lopsided_pools", "'pool1' (Pool)", "pool1",
          {"pad": (0, 2, 2, 0)}),
    Fault("pool: windows hang over the other edge", "hanging_pools", "'pool2' (Pool)", "pool2",
          {"pad": (1, 0, 1, 0)}),
    # Response norms.
    Fault("lrn: left out", "responding", "'lrn1' (LRN)", "lrn1", op=GONE),
    Fault("lrn: alpha / 5", "responding", "'lrn1' (LRN)", "lrn1", {"alpha": 4e-6}),
    Fault("lrn: alpha 1 % more", "responding", "'lrn2' (LRN)", "lrn2", {"alpha": 1.01e-4}),
    Fault("lrn: radius 1", "responding", "'lrn2' (LRN)", "lrn2", {"radius": 1}),
    Fault("lrn: beta 0.5", "responding", "'lrn1' (LRN)", "lrn1", {"beta": 0.5}),
    Fault("lrn: bias 2", "responding", "'lrn1' (LRN)", "lrn1", {"bias": 2.0}),
    # What has no numbers, or one.
    Fault("scale: left out", "inception", "'scale1' (Scale)", "scale1", op=GONE),
    Fault("scale: 1 % more", "widened", "'scale1' (Scale)", "scale1", {"factor": 0.505}),
    Fault("widen: channels put on the other side", "widened", "'widen1' (Widen)", "widen1",
          {"before": 3, "after": 1}),
    Fault("add: one summand twice", "residual", "'add1' (Add)", "add1", reads=("norm3", "norm3")),
    Fault("add: a summand lost of three", "residual", "'add2' (Add)", "add2",
          reads=("norm4", "act3")),
    Fault("concat: another order", "inception", "'concat1' (Concat)", "concat1",
          reads=("act4", "act3", "act2")),
    Fault("flatten: channels first", "plain", "'dense1' (Dense)", loads={"dense1/kernel": lambda k:
          k.reshape(2, 1, 6, 7).transpose(2, 0, 1, 3).reshape(12, 7)}),
    Fault("dense: bias left out", "plain", "'dense1' (Dense)", loads={"dense1/bias": no}),
    Fault("dense: gradient of a kernel 1 % off", "plain", "'dense1' (Dense)",
          spoilt={"gradient/dense1/kernel": times(1.01)}),
    Fault("conv: gradient of a bias lost", "plain", "'conv1' (Conv)",
          spoilt={"gradient/conv1/bias": no}),
    # Gates, norms over channels, channels in another order.
    Fault("gate: of what the last activation reads", "excited", "'gate/channelgate2' (ChannelGate)",
          "gate/channelgate2", reads=("add1", "gate/dense4")),
    Fault("gate: of another vector", "excited", "'gate/channelgate1' (ChannelGate)",
          "gate/channelgate1", reads=("act3", "gate/dense2")),
    Fault("act: SiLU for hardswish", "excited", "'act2' (Act)", "act2", {"kind": "silu"}),
    Fault("act: hardswish for SiLU", "excited", "'act1' (Act)", "act1", {"kind": "hardswish"}),
    Fault("act: sigmoid for hardsigmoid", "excited", "'gate/act2' (Act)", "gate/act2",
          {"kind": "sigmoid"}),
    Fault("act: hardsigmoid for sigmoid", "excited", "'gate/act4' (Act)", "gate/act4",
          {"kind": "hardsigmoid"}),
    Fault("act: the tanh form of GELU", "layer_normed", "'act1' (Act)", "act1",
          {"kind": "gelu-tanh"}),
    Fault("act: the exact form of GELU", "layer_normed", "'act2' (Act)", "act2", {"kind": "gelu"}),
    Fault("channel norm: epsilon x 1.1", "layer_normed", "'channelnorm1' (ChannelNorm)",
          "channelnorm1", {"eps": 1.1e-6}),
    Fault("channel norm: epsilon x 10 on a vector", "layer_normed",
          "'channelnorm4' (ChannelNorm)", "channelnorm4", {"eps": 1e-5}),
    Fault("channel norm: offset left out", "layer_normed", "'channelnorm2' (ChannelNorm)",
          loads={"channelnorm2/offset": no}),
    Fault("channel norm: gradient of a scale lost", "layer_normed",
          "'channelnorm3' (ChannelNorm)", spoilt={"gradient/channelnorm3/scale": no}),
    Fault("channel scale: 0.1 % off", "layer_normed", "'channelscale1' (ChannelScale)",
          loads={"channelscale1/gain": times(1.001)}),
    Fault("slice: the first half again", "shuffled", "'slice2' (Slice)", "slice2", {"first": 0}),
    Fault("shuffle: by the other number of groups", "shuffled", "'shuffle1' (Shuffle)",
          "shuffle1", {"groups": 3}),
    Fault("shuffle: left out", "shuffled", "'shuffle2' (Shuffle)", "shuffle2", op=GONE),
    Fault("heads: another share in the loss", "with_auxiliary", "the shares of the heads",
          heads=lambda head: Head(head.node, head.weight if head.weight == 1 else 0.4)),
    Fault("heads: one forgotten", "with_auxiliary", "the shares of the heads",
          heads=lambda head: Head(head.node, head.weight if head.weight == 1 else 1e-30)),
    # Update rules.
    Fault("sgd: momentum 0.88", "small", "momentum", changed={"momentum": plus(-0.02)}),
    Fault("sgd: not Nesterov's", "small", "Nesterov",
          changed={"nesterov": lambda right: not right}),
    Fault("sgd: no weight decay", "small", "weight decay", changed={"weight_decay": no}),
    Fault("sgd: weight decay halved", "plain", "weight decay",
          changed={"weight_decay": times(0.5)}),
    Fault("sgd: decay of kernels only", "small", "what is decayed",
          changed={"decay_on": lambda right: "kernels"}),
    Fault("sgd: a rate 1 % more", "small", "learning rate", changed={"rate": times(1.01)}),
    Fault("sgd: a bias is never updated", "plain", "'conv2' (Conv)",
          spoilt={"update/conv2/bias": no}),
    Fault("sgd: decay of all for that of kernels", "small", "what is decayed",
          rule=UpdateRule(decay_on="kernels"), changed={"decay_on": lambda right: "all"}),
    Fault("plain momentum: Nesterov's instead", "small", "Nesterov",
          rule=UpdateRule(nesterov=False), changed={"nesterov": lambda right: True}),
    Fault("no momentum: a rate 1 % more", "small", "learning rate", rule=UpdateRule(momentum=False),
          changed={"rate": times(1.01)}),
    Fault("clipping: norm 10 % more", "small", "clipping", rule=UpdateRule(clip_norm=True),
          changed={"clip_norm": times(1.1)}),
    Fault("clipping: left out", "small", "clipping", rule=UpdateRule(clip_norm=True),
          changed={"clip_norm": lambda right: None}),
    Fault("larc: coefficient 10 % less", "small", "LARC", rule=UpdateRule(larc="scale"),
          changed={"larc_eta": times(0.9)}),
    Fault("larc: scaling for clipping", "small", "LARC", rule=UpdateRule(larc="clip"),
          changed={"larc_mode": lambda right: "scale"}),
    Fault("larc: clipping for scaling", "small", "LARC", rule=UpdateRule(larc="scale"),
          changed={"larc_mode": lambda right: "clip"}),
    Fault("average: keeps 0.89", "small", "moving average", rule=UpdateRule(ema=True),
          changed={"ema": plus(-0.01)}),
    Fault("smoothing: halved", "small", "label smoothing", rule=UpdateRule(label_smoothing=True),
          changed={"label_smoothing": times(0.5)}),
    Fault("smoothing: left out", "residual", "label smoothing",
          rule=UpdateRule(label_smoothing=True), changed={"label_smoothing": no}),
    Fault("adam: no weight decay", "small", "weight decay", rule=ADAM,
          changed={"weight_decay": no}),
    Fault("adam: a rate 1 % more", "small", "learning rate", rule=ADAM,
          changed={"rate": times(1.01)}),
    Fault("adam: decay of kernels only", "small", "what is decayed", rule=ADAM,
          changed={"decay_on": lambda right: "kernels"}),
    Fault("adam: an epsilon 1 % more", "small", "epsilon", rule=ADAM,
          changed={"epsilon": times(1.01)}),
]  # fmt: skip
"""By op, then by update rule."""
