"""ResNet-50 v1.5 as a Keras user writes it, by `train_on_batch`: the peer of our Keras engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers


def resnet50() -> Any:
    """The functional model."""
    decay = keras.regularizers.L2(0.5e-4)

    def conv(x: Any, out: int, size: int, stride: int = 1) -> Any:
        if size > 1:
            x = layers.ZeroPadding2D(size // 2)(x) if stride > 1 else x
        padding = "same" if size > 1 and stride == 1 else "valid"
        x = layers.Conv2D(
            out, size, stride, padding, use_bias=False, kernel_regularizer=decay
        )(x)  # fmt: skip
        return layers.BatchNormalization(
            momentum=0.9, epsilon=1e-5, gamma_regularizer=decay, beta_regularizer=decay
        )(x)

    image = layers.Input((224, 224, 3))
    x = layers.ReLU()(conv(image, 64, 7, 2))
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))
    for stage, (width, depth) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True)):
        for unit in range(depth):
            stride = 2 if stage and not unit else 1
            y = layers.ReLU()(conv(x, width, 1))
            y = layers.ReLU()(conv(y, width, 3, stride))
            y = conv(y, 4 * width, 1)
            x = x if unit else conv(x, 4 * width, 1, stride)
            x = layers.ReLU()(layers.Add()([x, y]))
    x = layers.GlobalAveragePooling2D()(x)
    scores = layers.Dense(1000, kernel_regularizer=decay, bias_regularizer=decay)(x)
    return keras.Model(image, layers.Activation("linear", dtype="float32")(scores))


def bare_step(pixels: Any, labels: Any, precision: str) -> Callable[[], object]:
    """One training step, ready to call."""
    keras.config.set_dtype_policy({"fp32": "float32", "bf16": "mixed_bfloat16"}[precision])
    model = resnet50()
    model.compile(
        keras.optimizers.SGD(1e-3, momentum=0.9, nesterov=True),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    images, truth = keras.ops.convert_to_tensor(pixels), keras.ops.convert_to_tensor(labels)
    return lambda: model.train_on_batch(images, truth)
