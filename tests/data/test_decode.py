"""Pixels from compressed images: the same from every decoder, and none from damaged ones."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pictures import by_pillow, encoded, photo
from PIL import Image

from convdyno.data.augment import Box
from convdyno.data.decode import Reader, chosen
from convdyno.data.native import build
from convdyno.errors import BadData, NotInstalled, UnknownName

DECODERS = ["native", "simplejpeg"]
BOXES = [
    Box(0, 0, 101, 131), Box(37, 53, 40, 61), Box(16, 16, 32, 32), Box(32, 48, 17, 33),
    Box(1, 1, 99, 129), Box(100, 130, 1, 1), Box(60, 90, 41, 41), Box(0, 7, 3, 1),
]  # fmt: skip
KINDS = [
    {"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"mode": "L"},
    {"subsampling": 2, "progressive": True}, {"subsampling": 1, "restart_marker_blocks": 2},
]  # fmt: skip
PHOTO = photo(101, 131)

IN_CI = os.environ.get("CI") == "true"
"""Nothing may be missing there."""
needs_native = pytest.mark.skipif(
    build.reason() is not None and not IN_CI, reason=str(build.reason())
)


def part(reader: Reader, data: bytes, box: Box) -> np.ndarray:
    """A part of an image in its own size."""
    reader.open(data, "it")
    out = np.empty((box.height, box.width, 3), np.uint8)
    reader.read(box, out)
    return out


@needs_native
@pytest.mark.parametrize("fidelity", ["fast", "accurate"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_crop_has_the_pixels_of_the_whole_image_up_to_its_edge(kind, fidelity):
    data = encoded(PHOTO, quality=90, **kind)
    native, simple = Reader("native", 3, fidelity), Reader("simplejpeg", 3, fidelity)
    whole = simple.whole(data, "it")
    for top, left, height, width in BOXES:
        crop = part(native, data, Box(top, left, height, width))
        assert np.array_equal(crop, whole[top : top + height, left : left + width])


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_accurate_decoding_is_pillows(kind, decoder):
    data = encoded(PHOTO, quality=90, **kind)
    expected = np.broadcast_to(by_pillow(data), (101, 131, 3))
    assert np.array_equal(Reader(decoder, 3, "accurate").whole(data, "it"), expected)


@needs_native
@pytest.mark.parametrize("resize", ["plain", "antialiased"])
@pytest.mark.parametrize("out", [(24, 20, 3), (50, 61, 3), (120, 90, 3), (7, 140, 1), (1, 1, 3)])
def test_both_decoders_resize_alike_to_one_level(out, resize):
    data = encoded(PHOTO, quality=90)
    native, simple = (Reader(d, out[2], "fast", resize) for d in DECODERS)
    for box in BOXES:
        for mirror in (False, True):
            a, b = np.zeros(out, np.uint8), np.zeros(out, np.uint8)
            for reader, to in ((native, a), (simple, b)):
                reader.open(data, "it")
                reader.read(box, to, mirror)
            # Pillow rounds between its two passes as well.
            assert np.abs(a.astype(int) - b).max() <= (1 if resize == "plain" else 2)


@needs_native
@pytest.mark.parametrize("channels", [1, 3])
def test_both_decoders_distort_colours_alike(channels):
    from convdyno.data.colour import tint
    from convdyno.data.counter_rng import Dice

    for seed in range(8):
        results = []
        for decoder in DECODERS:
            reader = Reader(decoder, channels)
            reader.open(encoded(PHOTO), "it")
            out = np.empty((32, 32, channels), np.uint8)
            reader.read(BOXES[1], out, False, tint(Dice(seed, 0, 0)).folded())
            results.append(out.astype(int))
        assert np.abs(results[0] - results[1]).max() <= 3


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_bytes_decide_what_an_image_is(decoder):
    reader = Reader(decoder)
    for kind, how in [("PNG", {}), ("BMP", {}), ("TIFF", {}), ("WEBP", {"lossless": True})]:
        assert np.array_equal(reader.whole(encoded(PHOTO, kind, **how), "a.jpeg"), PHOTO)
    assert reader.whole(encoded(PHOTO, "GIF"), "a.jpeg").shape == PHOTO.shape


@pytest.mark.parametrize("decoder", DECODERS)
def test_print_colours_become_rgb(decoder):
    data = encoded(PHOTO, mode="CMYK", quality=95)
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert np.array_equal(Reader(decoder).whole(data, "it"), expected)


def test_palettes_transparency_and_sixteen_bits_become_bytes():
    reader = Reader()
    clear = np.dstack([PHOTO, np.full(PHOTO.shape[:2], 9, np.uint8)])
    assert np.array_equal(reader.whole(encoded(clear, "PNG"), "it"), PHOTO)
    few = Image.fromarray(PHOTO).quantize(64)
    out = io.BytesIO()
    few.save(out, "PNG")
    assert np.array_equal(reader.whole(out.getvalue(), "it"), np.asarray(few.convert("RGB")))
    deep = PHOTO[..., 0].astype(np.uint16) * 257
    out = io.BytesIO()
    Image.fromarray(deep).save(out, "PNG")
    assert np.array_equal(reader.whole(out.getvalue(), "it"), np.repeat(PHOTO[..., :1], 3, 2))


@pytest.mark.parametrize("decoder", DECODERS)
def test_orientation_is_not_followed(decoder):
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = encoded(PHOTO, exif=exif)
    plain = encoded(PHOTO)
    reader = Reader(decoder)
    assert np.array_equal(reader.whole(turned, "it"), reader.whole(plain, "it"))


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("cut", [2, 200, 2000])
def test_a_truncated_jpeg_is_refused_wherever_the_crop_is(decoder, cut, progressive):
    data = encoded(PHOTO, quality=90, progressive=progressive)
    with pytest.raises(BadData, match=r"a\.jpg: damaged JPEG: .*[Pp]remature end"):
        reader = Reader(decoder)
        reader.open(data[:-cut], "a.jpg")
        reader.read(Box(0, 0, 8, 8), np.empty((8, 8, 3), np.uint8))


@pytest.mark.parametrize("decoder", DECODERS)
def test_bytes_after_the_image_do_no_harm(decoder):
    data, reader = encoded(PHOTO, quality=90), Reader(decoder)
    whole = reader.whole(data, "it")
    assert np.array_equal(reader.whole(data + b"\0" * 99, "it"), whole)
    assert np.array_equal(reader.whole(data[:-2] + b"junk" + data[-2:], "it"), whole)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_size_that_the_bytes_cannot_hold_is_refused_before_memory_is(decoder):
    data = bytearray(encoded(PHOTO))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = b"\x2f\x00\x2a\x00"
    with pytest.raises(BadData, match=r"12032 x 10752 pixels, which \d+ bytes cannot hold"):
        Reader(decoder).open(bytes(data), "it")
    data[frame + 5 : frame + 9] = b"\xff\x00\xff\x00"
    with pytest.raises(BadData, match="not accepted"):
        Reader(decoder).open(bytes(data), "it")


@pytest.mark.parametrize("decoder", DECODERS)
@settings(max_examples=60)
@given(st.binary(max_size=60))
@example(b"")
@example(b"\xff\xd8\xff")
@example(b"\x89PNG\r\n\x1a\n")
def test_bytes_that_are_no_image_are_refused(decoder, data):
    for start in (b"", b"\xff\xd8\xff"):
        with pytest.raises(BadData):
            Reader(decoder).whole(start + data, "it")


@pytest.mark.parametrize("decoder", DECODERS)
def test_damaged_images_crash_no_decoder(decoder):
    if decoder == "native" and build.reason() and not IN_CI:
        pytest.skip(str(build.reason()))
    script = Path(__file__).with_name("fuzz_decoder.py")
    done = subprocess.run(
        [sys.executable, str(script), decoder, "1500"], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert "refused" in done.stdout


def test_without_a_compiler_simplejpeg_serves_and_the_reason_is_told(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    build.library.cache_clear()
    try:
        assert build.reason() == "there is no C compiler"
        assert chosen("auto") == Reader().name == "simplejpeg"
        with pytest.raises(NotInstalled, match="no C compiler"):
            Reader("native")
    finally:
        build.library.cache_clear()


def test_without_the_header_the_compilers_words_are_told(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-DLIBJPEG_TURBO_VERSION_NUMBER=1"))
    monkeypatch.setattr(build, "SOURCE", tmp_path / "crop.c")
    build.SOURCE.write_text("#include <no-such-jpeglib.h>\n")
    build.library.cache_clear()
    try:
        assert "no-such-jpeglib.h" in str(build.reason())
        assert list((tmp_path / "convdyno").iterdir()) == []
    finally:
        build.library.cache_clear()


def test_an_unknown_decoder_is_refused():
    with pytest.raises(UnknownName, match="simplejpeg"):
        Reader("simplejpg")
