"""Feeds a decoder damaged images until it breaks: python fuzz_decoder.py native 2000

Run in a process of its own, so that a crash is seen as its exit code. Every outcome but pixels or
BadData is a failure.
"""

import random
import sys
from collections import Counter

import numpy as np
from pictures import encoded, photo

from convdyno.data.augment import Box
from convdyno.data.decode import Reader
from convdyno.errors import BadData

SIZES = ((0, 0), (0xFF, 0xFF), (0x00, 0x01), (0x7F, 0xFF))


def seeds() -> list[bytes]:
    """Whole images of every kind that the decoders tell apart."""
    image = photo(70, 90)
    return [
        encoded(image, quality=80, subsampling=0),
        encoded(image, quality=80, subsampling=2),
        encoded(image, quality=80, subsampling=1, progressive=True),
        encoded(image, quality=80, restart_marker_blocks=3),
        encoded(image, quality=80, mode="L"),
        encoded(image, quality=80, mode="CMYK"),
        encoded(image, "PNG"),
        encoded(image, "WEBP"),
        encoded(image, "GIF"),
    ]


def mutate(chance: random.Random, data: bytes) -> bytes:
    """Flip, cut, repeat or lie about the size."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        kind = chance.randrange(6)
        at = chance.randrange(len(out))
        if kind == 0:
            out[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            out[at] = chance.choice((0, 0xFF, 0xD8, 0xD9, 0xC4, 0xDA))
        elif kind == 2:
            del out[at : at + chance.choice((1, 40, len(out)))]
        elif kind == 3:
            out[at:at] = out[max(0, at - chance.randint(1, 60)) : at]
        elif kind == 4:
            # Most damage that matters is in the first bytes: tables, sizes, sampling.
            out[chance.randrange(min(len(out), 700))] = chance.randrange(256)
        else:
            frame = max(out.find(b"\xff\xc0"), out.find(b"\xff\xc2"))
            if 0 <= frame < len(out) - 9:
                out[frame + 5 : frame + 7] = bytes(chance.choice(SIZES))
                out[frame + 7 : frame + 9] = bytes(chance.choice(SIZES))
        if not out:
            return b"\xff\xd8\xff"
    return bytes(out)


def attempt(reader: Reader, data: bytes, chance: random.Random) -> str:
    """What becomes of one image."""
    out = np.empty((32, 24, 3), np.uint8)
    try:
        height, width = reader.open(data, "fuzz")
        top, left = chance.randrange(height), chance.randrange(width)
        box = Box(top, left, chance.randint(1, height - top), chance.randint(1, width - left))
        reader.read(box, out, chance.random() < 0.5)
    except BadData:
        return "refused"
    return "pixels"


def main(decoder: str, count: int) -> None:
    """Try so many images."""
    chance = random.Random(20)
    readers = [
        Reader(decoder, 3, fidelity, resize)
        for fidelity in ("fast", "accurate")
        for resize in ("plain", "antialiased")
    ]
    whole = seeds()
    found = Counter(
        attempt(chance.choice(readers), mutate(chance, chance.choice(whole)), chance)
        for _ in range(count)
    )
    assert all(attempt(reader, data, chance) == "pixels" for reader in readers for data in whole)
    print(dict(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
