"""Encoded images: what they are by their first bytes, their size, and writing them anew.

EXIF orientation is ignored here as it is in every pipeline that convdyno is compared with.
"""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from dataclasses import dataclass
from typing import Any

from convdyno.data.optional_import import need
from convdyno.errors import BadData

MAGIC = {
    b"\xff\xd8\xff": "JPEG",
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"GIF8": "GIF",
    b"BM": "BMP",
    b"II*\x00": "TIFF",
    b"MM\x00*": "TIFF",
    b"P4": "PPM",
    b"P5": "PPM",
    b"P6": "PPM",
}
HEAD = 16
"""Bytes that tell what a file is."""
END_OF_JPEG = b"\xff\xd9"
HARMLESS = "extraneous bytes"
"""What libjpeg says of bytes between or after the image's own; see hear_warning in crop.c."""
TAIL = 2048
"""Where the end of a JPEG is looked for; some files have a little more after it."""
PLAIN = ("L", "RGB")
"""Colour modes that every reader of JPEG and PNG understands."""


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """What an image says of itself before it is decoded."""

    format: str
    width: int
    height: int
    mode: str
    """As Pillow names it: "L" is grey, "RGB", "CMYK", ..."""


FULL, HALVED = "4:4:4", "4:2:0"
"""Whether a JPEG has a colour for each pixel, or for each four."""
SMALL = 64
"""Pixels of the shorter side below which each pixel counts."""
BROKEN = (
    OSError, SyntaxError, ValueError, TypeError, IndexError, KeyError, EOFError, OverflowError,
    MemoryError, AttributeError, struct.error, zlib.error,
)  # fmt: skip
"""What Pillow raises for broken files; its plug-ins are not strict about it."""


def sniff(head: bytes | memoryview) -> str | None:
    """The format of an image by its first bytes; None if they are no image's."""
    start = bytes(head[:HEAD])
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "WEBP"
    return next((name for magic, name in MAGIC.items() if start.startswith(magic)), None)


def read_header(data: bytes | memoryview, where: str) -> ImageHeader:
    """Format and size of an image, without decoding it."""
    with _opened(data, where, load=False) as image:
        return ImageHeader(image.format or "", image.width, image.height, image.mode)


def check_whole(data: bytes | memoryview, where: str) -> None:
    """Decode an image and forget it; `BadData` where it is damaged or cut off."""
    with _opened(data, where, load=True) as image:
        if image.format != "JPEG" or image.mode not in PLAIN:
            return
    # Pillow fills up in silence what a JPEG lacks before its end marker.
    try:
        need("simplejpeg").decode_jpeg(data, strict=True)
    except ValueError as problem:
        if HARMLESS not in str(problem):
            raise BadData(f"{where} is a damaged JPEG: {problem}") from None


def ends_early(data: bytes | memoryview) -> bool:
    """Whether a JPEG lacks the marker near its end: reason enough to decode it for a check."""
    return END_OF_JPEG not in bytes(data[-TAIL:])


def encode(
    pixels: Any, format: str, quality: int, where: str, short_side: int | None = None
) -> tuple[bytes, ImageHeader]:
    """Encode an array of HWC bytes, or anew an encoded image, as grey or RGB JPEG or PNG."""
    if isinstance(pixels, bytes | memoryview):
        with _opened(pixels, where, load=True) as image:
            return _encoded(_plain(image), format, quality, short_side)
    flat = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    return _encoded(need("PIL.Image").fromarray(flat), format, quality, short_side)


def _encoded(
    image: Any, format: str, quality: int, short_side: int | None
) -> tuple[bytes, ImageHeader]:
    shortest = min(image.size)
    if short_side is not None and shortest > short_side:
        size = [max(1, round(side * short_side / shortest)) for side in image.size]
        # Antialiased: the filter widens with the scale.
        image = image.resize(size, need("PIL.Image").Resampling.BICUBIC)
    out, how = io.BytesIO(), {}
    if format == "JPEG":
        how = {"quality": quality, "subsampling": FULL if min(image.size) < SMALL else HALVED}
    image.save(out, format, **how)
    return out.getvalue(), ImageHeader(format, image.width, image.height, image.mode)


def _plain(image: Any) -> Any:
    if image.mode in PLAIN:
        return image
    if image.mode.startswith("I"):
        # Sixteen bits a pixel: the upper eight are kept.
        return image.convert("I").point(lambda value: value / 256).convert("L")
    return image.convert("L" if image.mode in ("1", "LA") else "RGB")


def _opened(data: bytes | memoryview, where: str, load: bool) -> Any:
    image = need("PIL.Image")
    if sniff(data) is None:
        raise BadData(f"{where} is no image that can be read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opened = image.open(io.BytesIO(data))
            if load:
                opened.load()
            return opened
    except (*BROKEN, image.DecompressionBombError) as error:
        raise BadData(f"{where} is a damaged image: {_words(error)}") from error


def _words(error: BaseException) -> str:
    text = str(error).partition(" <_io")[0]
    return text or type(error).__name__
