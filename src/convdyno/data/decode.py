"""Compressed images into pixels of the size and colours that a network takes.

JPEGs are decoded by the native decoder (only the crop's rows and columns) or by simplejpeg (all of
them); everything else, and JPEGs in print colours, by Pillow. What the bytes are decides, not what
the file is called. An orientation in EXIF is not followed: no pipeline that this one is compared
with does, and labels and boxes of data sets are made without it.
"""

from __future__ import annotations

import ctypes
import io
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from convdyno.data import colour
from convdyno.data.augment import Box, Fidelity, Resize, resample, with_channels
from convdyno.data.encoded_image import HARMLESS
from convdyno.data.native import build
from convdyno.data.optional_import import need
from convdyno.data.source import Pixels
from convdyno.errors import BadData, NotInstalled, UnknownName

Choice = Literal["auto", "native", "simplejpeg"]
DECODERS = {
    "auto": "native where it can be built, simplejpeg elsewhere",
    "native": "only the rows and columns of the crop, by libjpeg-turbo (needs a C compiler)",
    "simplejpeg": "the whole image, by simplejpeg; resized by OpenCV",
}
JPEG = b"\xff\xd8\xff"
MOST_PIXELS = 1 << 27
"""A larger image is refused before anything is allocated."""
MOST_PIXELS_PER_BYTE = 1024
"""No JPEG of one bit a block holds more: a header that promises more lies."""
SMALL = 1 << 20
OTHER_COLOURS = 2
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "JPEG2000")
"""Of Pillow's: none that runs another program."""
Colours = NDArray[np.float32]


class Reader:
    """Reads one image after another; each thread has its own."""

    def __init__(
        self,
        choice: Choice = "auto",
        channels: int = 3,
        fidelity: Fidelity = "fast",
        resize: Resize = "plain",
    ) -> None:
        self._channels = channels
        self.name = chosen(choice)
        decoder = _Native if self.name == "native" else _Simple
        self._jpeg: _Native | _Simple = decoder(channels, fidelity, resize)
        self._pixels: Pixels | None = None
        self._where = ""

    def open(self, data: bytes | memoryview, where: str) -> tuple[int, int]:
        """Take an image and tell its height and width; `read` gives its pixels."""
        self._pixels, self._where = None, where
        raw = np.frombuffer(data, np.uint8)
        try:
            size = self._jpeg.header(raw) if bytes(raw[:3]) == JPEG else None
            if size is not None:
                _check_size(*size, len(raw))
                return size
            self._pixels = with_channels(_by_pillow(raw), self._channels)
        except BadData as problem:
            raise BadData(f"{where}: {problem}") from None
        return self._pixels.shape[0], self._pixels.shape[1]

    def take(self, pixels: Pixels) -> tuple[int, int]:
        """The same with an image that is decoded already."""
        self._pixels = with_channels(pixels, self._channels)
        return pixels.shape[0], pixels.shape[1]

    def read(
        self, box: Box, out: Pixels, mirror: bool = False, tint: Colours | None = None
    ) -> None:
        """Write a part of the image, resized, into `out` (height, width, channels)."""
        if self._pixels is None:
            try:
                self._jpeg.crop(box, out, mirror, tint)
            except BadData as problem:
                raise BadData(f"{self._where}: {problem}") from None
        else:
            top, left, height, width = box
            part = self._pixels[top : top + height, left : left + width]
            self._jpeg.resize(part, out, mirror, tint)

    def whole(self, data: bytes | memoryview, where: str) -> Pixels:
        """All pixels of an image."""
        height, width = self.open(data, where)
        out = np.empty((height, width, self._channels), np.uint8)
        self.read(Box(0, 0, height, width), out)
        return out


def chosen(choice: Choice) -> Literal["native", "simplejpeg"]:
    """What `auto` means here; asking for a native decoder that cannot be built is refused."""
    if choice not in DECODERS:
        raise UnknownName("decoder", choice, DECODERS)
    if choice == "simplejpeg":
        return "simplejpeg"
    reason = build.reason()
    if reason is None:
        return "native"
    if choice == "native":
        raise NotInstalled(f"there is no native decoder here: {reason}; --decoder simplejpeg works")
    return "simplejpeg"


class _Native:
    def __init__(self, channels: int, fidelity: Fidelity, resize: Resize) -> None:
        self._library = build.library()
        self._handle = self._library.convdyno_open()
        if not self._handle:
            raise MemoryError("no memory for a decoder")
        self._close = self._library.convdyno_close
        self._accurate = int(fidelity == "accurate")
        self._wide = int(resize == "antialiased")
        self._size = (ctypes.c_int32 * 2)()
        self._data: Pixels | None = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._close(self._handle)

    def header(self, data: Pixels) -> tuple[int, int] | None:
        """Height and width of a JPEG; None if it is left to Pillow: print colours, odd sampling."""
        # The bytes must stay until they are decoded.
        self._data = data
        size = self._size
        problem = self._library.convdyno_header(self._handle, data.ctypes.data, len(data), size)
        if problem == OTHER_COLOURS:
            return None
        self._check(problem)
        return size[0], size[1]

    def crop(self, box: Box, out: Pixels, mirror: bool, tint: Colours | None) -> None:
        height, width, channels = out.shape
        problem = self._library.convdyno_crop(
            self._handle, channels, self._accurate, (ctypes.c_int32 * 4)(*box),
            self._wide, mirror, height, width, _address(tint), out.ctypes.data,
        )  # fmt: skip
        self._check(problem)

    def resize(self, image: Pixels, out: Pixels, mirror: bool, tint: Colours | None) -> None:
        height, width, channels = out.shape
        if image.strides[1:] != (channels, 1):
            image = np.ascontiguousarray(image)
        problem = self._library.convdyno_resize(
            self._handle, image.ctypes.data, image.strides[0], channels, *image.shape[:2],
            self._wide, mirror, height, width, _address(tint), out.ctypes.data,
        )  # fmt: skip
        self._check(problem)

    def _check(self, problem: int) -> None:
        if problem:
            message: bytes = self._library.convdyno_message(self._handle)
            raise BadData(f"damaged JPEG: {message.decode(errors='replace')}")


class _Simple:
    def __init__(self, channels: int, fidelity: Fidelity, resize: Resize) -> None:
        self._library = need("simplejpeg")
        # Batches are spread over threads already.
        need("cv2").setNumThreads(1)
        self._space = "RGB" if channels == 3 else "GRAY"
        self._channels = channels
        self._fast = fidelity == "fast"
        self._resize: Resize = resize
        self._room = bytearray()
        self._bytes = 0

    def header(self, data: Pixels) -> tuple[int, int] | None:
        try:
            height, width, space, _ = self._library.decode_jpeg_header(data, strict=False)
        except ValueError as problem:
            raise BadData(f"damaged JPEG: {problem}") from None
        except KeyError:
            return None
        if space in ("CMYK", "YCCK"):
            return None
        self._data, self._bytes = data, height * width * self._channels
        return height, width

    def crop(self, box: Box, out: Pixels, mirror: bool, tint: Colours | None) -> None:
        if len(self._room) < self._bytes:
            self._room = bytearray(self._bytes)
        top, left, height, width = box
        part = self._decode(strict=True)[top : top + height, left : left + width]
        self.resize(part, out, mirror, tint)

    def _decode(self, strict: bool) -> Pixels:
        try:
            image: Pixels = self._library.decode_jpeg(
                self._data, self._space, fastdct=self._fast, fastupsample=self._fast,
                buffer=self._room, strict=strict,
            )  # fmt: skip
        except ValueError as problem:
            if strict and HARMLESS in str(problem):
                return self._decode(strict=False)
            raise BadData(f"damaged JPEG: {problem}") from None
        return image

    def resize(self, image: Pixels, out: Pixels, mirror: bool, tint: Colours | None) -> None:
        resample(image, out, self._resize, mirror)
        if tint is not None:
            colour.distort(out, tint)


def _address(numbers: Colours | None) -> int | None:
    return None if numbers is None else numbers.ctypes.data


def _check_size(height: int, width: int, size: int | None = None) -> None:
    pixels = height * width
    if not 0 < pixels <= MOST_PIXELS:
        raise BadData(f"an image of {height} x {width} pixels is not accepted")
    if size is not None and pixels > max(SMALL, MOST_PIXELS_PER_BYTE * size):
        raise BadData(f"the header says {height} x {width} pixels, which {size} bytes cannot hold")


def _by_pillow(raw: Pixels) -> Pixels:
    pil = need("PIL.Image")
    try:
        with pil.open(io.BytesIO(raw.tobytes()), formats=FORMATS) as picture:
            _check_size(picture.height, picture.width)
            return _as_bytes(picture)
    except BadData:
        raise
    # Pillow's readers raise many kinds of errors on damaged files.
    except Exception as problem:
        sentence = str(problem).replace("<_io.BytesIO object at ", "<").splitlines() or [""]
        kind = type(problem).__name__
        if kind == "UnidentifiedImageError":
            raise BadData("not an image of a known format") from None
        raise BadData(f"damaged image: {sentence[0] or kind}") from None


def _as_bytes(picture: object) -> Pixels:
    """8-bit grey or RGB; transparency is dropped, 16 bits lose their lower half."""
    from PIL.Image import Image

    assert isinstance(picture, Image)
    if picture.mode.startswith(("I", "F")):
        values = np.asarray(picture)
        top = 65535 if picture.mode.startswith("I") else 255
        scaled = np.clip(values, 0, top).astype(np.int64) >> (8 if top == 65535 else 0)
        return np.asarray(scaled, np.uint8)[..., None]
    if picture.mode in ("1", "L", "LA"):
        return np.array(picture.convert("L"), np.uint8)[..., None]
    if picture.mode in ("P", "PA"):
        picture = picture.convert("RGBA")
    return np.array(picture.convert("RGB"), np.uint8)
