"""Pictures as they are encoded."""

import io

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

from convdyno.data.encoded_image import encode


@pytest.mark.parametrize("side, sampling", [(32, 0), (63, 0), (64, 2), (200, 2)])
def test_small_images_keep_a_colour_for_each_pixel(side: int, sampling: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)
    data, _ = encode(pixels, "JPEG", 95, "here")
    with Image.open(io.BytesIO(data)) as image:
        assert JpegImagePlugin.get_sampling(image) == sampling
