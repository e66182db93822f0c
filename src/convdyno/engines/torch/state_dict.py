"""Reading a state dict from torch's own files, without ever running code from them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from convdyno.errors import BadWeights

WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Where training scripts put the weights in a checkpoint."""


def read(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a `.pt` or `.pth` file by name."""
    try:
        data = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise BadWeights(
            f"{path} is broken, or holds more than tensors: code in a file is never run. "
            "Save only the state dict: torch.save(model.state_dict(), path)"
        ) from None
    for wrapper in WRAPPERS:
        if isinstance(data, dict) and isinstance(data.get(wrapper), dict):
            data = data[wrapper]
    if not isinstance(data, dict) or not data:
        raise BadWeights(f"{path} has no state dict in it, but a {type(data).__name__}")
    found = {}
    for name, tensor in data.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise BadWeights(f"{path} has more than tensors by name in it: {str(name)[:80]!r}")
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
            raise BadWeights(f"{path}: {name!r} is not a plain tensor of real numbers")
        # Strides of zero could make a small file a huge array.
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise BadWeights(f"{path}: {name!r} is larger than what is stored of it")
        plain = tensor.detach()
        found[name] = (plain.float() if plain.is_floating_point() else plain).numpy()
    return found
