"""The smallest networks: for digits, and for measuring everything but the network."""

from __future__ import annotations

from convdyno.blueprint.draft import Draft
from convdyno.blueprint.graph import Blueprint
from convdyno.zoo.registry import network

MNIST = (28, 28, 1)


@network(
    "trivial",
    image=(32, 32, 3),
    classes=10,
    batch=128,
    note="one dense layer: what is measured is the input and the framework",
)
def trivial(net: Draft, classes: int) -> Blueprint:
    return net.image.flatten().logits(classes).done()


@network(
    "trivial-nvcnn",
    batch=128,
    note="nvcnn's: a dense layer of one unit with ReLU, then the classes",
)
def trivial_nvcnn(net: Draft, classes: int) -> Blueprint:
    net.init = "glorot"
    return net.image.flatten().dense(1).relu().logits(classes).done()


@network(
    "lenet",
    image=MNIST,
    classes=10,
    batch=128,
    paper="LeCun et al. 1998",
    note="nvcnn's: 5x5 windows padded to the image's size, 512 features, no dropout",
)
def lenet(net: Draft, classes: int) -> Blueprint:
    net.init = "glorot"
    x = net.image.conv_relu(32, 5, pad="same").max_pool(2, 2)
    x = x.conv_relu(64, 5, pad="same").max_pool(2, 2)
    return x.flatten().dense(512).relu().logits(classes).done()


@network(
    "deepmnist",
    image=MNIST,
    classes=10,
    batch=50,
    paper="TensorFlow's tutorial Deep MNIST for Experts",
    note="1024 features, dropout of a half, Adam",
    optimiser="adam",
)
def deepmnist(net: Draft, classes: int) -> Blueprint:
    net.init = "deepmnist"
    x = net.image.conv_relu(32, 5, pad="same").max_pool(2, 2)
    x = x.conv_relu(64, 5, pad="same").max_pool(2, 2)
    return x.flatten().dense(1024).relu().dropout(0.5).logits(classes).done()
