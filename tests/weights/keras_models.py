"""Makes real keras.applications models, saves their weights and answers; run as a process.

python keras_models.py FOLDER MODEL=SIDE ...
"""

import json
import os
import sys
from pathlib import Path

os.environ["KERAS_BACKEND"] = "torch"
RANGES = {
    "gamma": (0.7, 1.3),
    "beta": (-0.2, 0.2),
    "bias": (-0.2, 0.2),
    "moving_mean": (-0.2, 0.2),
    "moving_variance": (0.6, 1.4),
}


def computed(name: str, side: int, folder: Path) -> None:
    """A model with weights of which none is special, its files and its answers."""
    import h5py
    import keras
    import numpy as np
    from keras.src.legacy.saving import legacy_h5_format

    shape = (side, side, 3)
    maker = getattr(keras.applications, name)
    model = maker(weights=None, classes=10, classifier_activation=None, input_shape=shape)
    random = np.random.default_rng(11)
    for variable in model.weights:
        kind = variable.path.rpartition("/")[2]
        if kind == "kernel":
            deviation = np.float32((2 / np.prod(variable.shape[:-1])) ** 0.5)
            values = random.standard_normal(variable.shape, np.float32) * deviation
        else:
            values = random.uniform(*RANGES[kind], variable.shape).astype(np.float32)
        variable.assign(values)
    images = np.load(folder / f"{name}-images.npy")
    np.save(folder / f"{name}-logits.npy", np.asarray(model.predict_on_batch(images)))
    model.save_weights(folder / f"{name}.weights.h5")
    with h5py.File(folder / f"{name}.h5", "w") as file:
        legacy_h5_format.save_weights_to_hdf5_group(file, model)


def named(name: str) -> dict[str, list[int]]:
    """The shape of every variable of a model that has no values."""
    import keras

    with keras.device("meta"):
        model = getattr(keras.applications, name)(weights=None)
    return {variable.path: list(variable.shape) for variable in model.weights}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    shapes = {}
    for word in sys.argv[2:]:
        name, _, side = word.partition("=")
        if side:
            computed(name, int(side), folder)
        else:
            shapes[name] = named(name)
    (folder / "shapes.json").write_text(json.dumps(shapes))
