"""JAX as the native engine and Keras both use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

import jax
from jaxlib.version import __version__ as jaxlib_version

FORGET_EVERY = 20
"""Networks run op by op after which compiled ops are forgotten, because each adds hundreds."""
NO_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory")
_asked = count(1)


class OnJax:
    """What every engine on JAX does alike."""

    def versions(self) -> dict[str, str]:
        """Versions of jax and of jaxlib, which has the compiler."""
        return {"jax": jax.__version__, "jaxlib": jaxlib_version}

    def leave(self) -> None:
        """Part from the other processes; returns when they do too."""
        with suppress(RuntimeError):
            jax.distributed.shutdown()

    @contextmanager
    def op_by_op(self) -> Iterator[None]:
        """Each op is compiled by itself, once for each shape."""
        with jax.disable_jit():
            yield
        if next(_asked) % FORGET_EVERY == 0:
            jax.clear_caches()

    def out_of_memory(self, error: BaseException) -> bool:
        """Whether the memory of the host or the device did not suffice."""
        return isinstance(error, MemoryError) or (
            isinstance(error, jax.errors.JaxRuntimeError)
            and any(text in str(error) for text in NO_MEMORY)
        )
