"""Images that need no files: one fixed batch of random bytes, its labels fixed too.

Fixed, so that drawing it costs nothing while steps are timed and the loss can fall.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HostBatch = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Images as NHWC bytes, and their labels."""


def synthetic_batch(image: tuple[int, ...], classes: int, batch: int, seed: int) -> HostBatch:
    """A batch of random images and labels; the same for the same seed."""
    random = np.random.default_rng([seed, 0x5EED])
    images = random.integers(0, 256, (batch, *image), np.uint8)
    labels = random.integers(0, classes, batch, np.int64)
    return images, labels
