"""torch as the native engine and Keras both use it."""

from __future__ import annotations

import re
from contextlib import suppress

import torch
from torch import distributed

LIBRARIES = {"onednn": r"MKL-DNN v([\d.]+)", "mkl": r"Math Kernel Library Version ([\d.]+)"}
NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")


class OnTorch:
    """What every engine on torch does alike."""

    def versions(self) -> dict[str, str]:
        """Versions of torch and of the libraries that do its arithmetic."""
        built_with = torch.__config__.show()
        found = {name: re.search(line, built_with) for name, line in LIBRARIES.items()}
        versions = {"torch": str(torch.__version__)}
        versions |= {name: match[1] for name, match in found.items() if match}
        if torch.cuda.is_available():
            versions["cuda"] = str(torch.version.cuda)
            versions["cudnn"] = str(torch.backends.cudnn.version())
        return versions

    def leave(self) -> None:
        """End the group of processes."""
        if distributed.is_initialized():
            with suppress(RuntimeError):
                distributed.destroy_process_group()

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether the memory of the host or the GPU did not suffice."""
        return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
            isinstance(error, RuntimeError) and any(text in str(error) for text in NO_MEMORY)
        )
