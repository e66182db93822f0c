"""Whatever bytes a file has, a parser gives data or says `BadData`: no crash, no blow-up."""

import random
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_sets import (
    cifar_arrays,
    encoded,
    idx,
    mnist,
    packed,
    picture,
    planes,
    python2_pickle,
)

from convdyno.data.cifar import find_cifar
from convdyno.data.detect import recognise
from convdyno.data.encoded_image import check_whole, read_header
from convdyno.data.files import Blob
from convdyno.data.idx import read_idx
from convdyno.data.imagenet_meta import read_synsets
from convdyno.data.safe_pickle import read_pickled
from convdyno.data.tf_example import (
    Picture,
    build_example,
    find_filename,
    find_label,
    parse_example,
)
from convdyno.data.tfrecord import RecordFile, RecordWriter
from convdyno.errors import BadData

MEMORY = 24 << 20
"""Bytes that a parser of a small file may need at most."""
IMAGES, LABELS = cifar_arrays(2)
BATCH = python2_pickle(IMAGES, LABELS.tolist())
EXAMPLE = build_example(Picture(encoded(picture()), 3, "fish", "a.jpg", 20, 24, 3, "JPEG"))
ARRAY = idx(IMAGES[..., 0])


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def survives(parse: Callable[[], object]) -> None:
    """The parser ends with a value or with `BadData`, and needs little memory."""
    tracemalloc.start()
    try:
        parse()
    except BadData as error:
        assert str(error) and "\n" not in str(error)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < MEMORY


def mutations(whole: bytes, count: int) -> Iterator[bytes]:
    """A repeatable corpus: bytes flipped, cut out, doubled, set to extremes, ends cut off."""
    rng = random.Random(zlib.crc32(whole))
    # The structure is at the beginning; most mutations go there.
    for number in range(count):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            if not data:
                break
            reach = len(data) if number % 3 == 0 else min(len(data), 300)
            at = rng.randrange(reach)
            kind = rng.randrange(6)
            if kind == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            elif kind == 2:
                del data[at : at + rng.randint(1, 16)]
            elif kind == 3:
                data[at:at] = data[at : at + rng.randint(1, 16)]
            elif kind == 4:
                data[at : at + 8] = rng.choice((b"\xff" * 8, b"\x7f" + b"\xff" * 7, bytes(8)))
            else:
                del data[at:]
        yield bytes(data)


def from_idx(data: bytes) -> object:
    return read_idx(Blob("x", "x", held=data))


def from_pickle(data: bytes) -> object:
    return read_pickled(data, "x")


def from_example(data: bytes) -> object:
    return parse_example(data, "x")


def label_of(data: bytes) -> object:
    assert isinstance(find_filename(data, 0, len(data)), str)
    return find_label(data, 0, len(data), "x")


def from_batches(name: str) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        lists = Blob("train_lables.json", "l", held=b"[0, 1]")
        found = find_cifar(Path("x"), [Blob(name, "x", held=data), lists])
        return found and found.open("train")

    return parse


def synsets(data: bytes) -> object:
    return read_synsets(data, "x")


def image(data: bytes) -> object:
    read_header(data, "x")
    return check_whole(data, "x")


def binary() -> bytes:
    rows = planes(IMAGES)
    return b"".join(bytes([label]) + rows[row].tobytes() for row, label in enumerate(LABELS))


def small_mat() -> bytes:
    from small_sets import meta_mat

    return meta_mat()


PARSERS = {
    "idx": (from_idx, lambda: ARRAY),
    "pickle": (from_pickle, lambda: BATCH),
    "cifar python": (from_batches("data_batch_1"), lambda: BATCH),
    "cifar binary": (from_batches("data_batch_1.bin"), binary),
    "cifar png": (
        from_batches("data_batch_1.png"),
        lambda: encoded(picture(1, (1024, 2)), "PNG"),
    ),
    "example": (from_example, lambda: EXAMPLE),
    "label": (label_of, lambda: EXAMPLE),
    "matlab": (synsets, small_mat),
    "jpeg": (image, lambda: encoded(picture(2))),
}


@pytest.mark.parametrize("name", PARSERS)
def test_a_corpus_of_mutations(name: str) -> None:
    parse, whole = PARSERS[name]
    content = whole()
    parse(content)
    for data in mutations(content, 400):
        survives(lambda data=data: parse(data))  # type: ignore[misc]


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=150)
@given(data=st.binary(max_size=300))
def test_random_bytes(name: str, data: bytes) -> None:
    survives(lambda: PARSERS[name][0](data))


@settings(max_examples=150)
@given(dimensions=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4), tail=st.binary())
def test_lying_idx_dimensions(dimensions: list[int], tail: bytes) -> None:
    head = b"\0\0\x08" + bytes([len(dimensions)])
    sizes = b"".join(n.to_bytes(4, "big") for n in dimensions)
    survives(lambda: from_idx(head + sizes + tail))


OPCODES = b"}](.e0123KMJINTUVXqrhjbdglopstuBC" + bytes(range(0x80, 0x97))


@settings(max_examples=400)
@given(
    parts=st.lists(
        st.one_of(
            st.sampled_from([bytes([code]) for code in OPCODES]),
            st.sampled_from(
                [b"cnumpy\ndtype\n", b"cnumpy.core.multiarray\n_reconstruct\n", b"cos\nsystem\n"]
            ),
            st.binary(max_size=5),
        ),
        max_size=30,
    )
)
def test_random_opcodes_build_nothing_but_plain_values(parts: list[bytes]) -> None:
    survives(lambda: from_pickle(b"\x80\x02" + b"".join(parts) + b"."))


def test_lying_lengths_in_a_pickle() -> None:
    for code in (b"T", b"X", b"B", b"\x8b"):
        survives(lambda code=code: from_pickle(b"\x80\x02" + code + b"\xff\xff\xff\x7f."))  # type: ignore[misc]
    for code in (b"\x8d", b"\x8e", b"\x96"):
        survives(lambda code=code: from_pickle(b"\x80\x04" + code + b"\xff" * 7 + b"\x7f."))  # type: ignore[misc]
    survives(lambda: from_pickle(b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b"."))
    survives(lambda: from_pickle(b"\x80\x02]q\x00" + b"(h\x00h\x00e" * 20_000 + b"."))


def read_all(path: Path) -> object:
    file = RecordFile(path)
    try:
        file.labels()
        return [parse_example(file.read(row), "x") for row in range(len(file))]
    finally:
        file.close()


def test_framing_of_records(tmp_path: Path) -> None:
    path = tmp_path / "train-0"
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for _ in range(3):
            writer.write(EXAMPLE)
    whole = path.read_bytes()
    assert len(read_all(path)) == 3  # type: ignore[arg-type]
    for data in mutations(whole, 400):
        path.write_bytes(data)
        survives(lambda: read_all(path))


@pytest.mark.parametrize("zipped", [False, True])
def test_archives(tmp_path: Path, zipped: bool) -> None:
    mnist(tmp_path / "set", count=2)
    files = {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()}
    path = tmp_path / "a.tar"
    for data in mutations(packed(files, zipped), 150):
        path.write_bytes(data)

        def parse() -> None:
            found = recognise(str(path))
            for split in found.splits:
                found.open(split)

        survives(parse)


def test_zipped_idx(tmp_path: Path) -> None:
    import gzip

    for data in mutations(gzip.compress(ARRAY, mtime=0), 300):
        survives(lambda data=data: from_idx(data))  # type: ignore[misc]


def test_a_gzip_bomb_is_read_no_further_than_its_header_says() -> None:
    import gzip

    bomb = gzip.compress(b"\0\0\x08\x01\0\0\0\x05" + bytes(64 << 20), mtime=0)
    survives(lambda: from_idx(bomb))
