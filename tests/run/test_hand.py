"""What rank 0 has reaches the others as it is."""

from pathlib import Path

import numpy as np
import ranks_here

from convdyno.errors import TrialFailed, UsageError
from convdyno.run.hand import fail_together, file_of_first, pack, unpack
from convdyno.run.huddle import Huddle
from convdyno.trial.world import World

ARRAYS = {
    "floats": np.array([[1.5, -0.0], [np.nan, 3e-45]], np.float32),
    "one": np.array(7, np.int64),
    "bytes": np.arange(5, dtype=np.uint8),
    "none": np.zeros((0, 3), np.float64),
}


def test_arrays_are_the_same_to_the_bit() -> None:
    def told(world: World, huddle: Huddle) -> object:
        return unpack(huddle.agree(pack(ARRAYS if world.rank == 0 else {})))

    for heard in ranks_here.together(3, told):
        assert heard.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            assert (heard[name].dtype, heard[name].shape) == (array.dtype, array.shape)
            assert heard[name].tobytes() == array.tobytes()


def test_a_file_reaches_ranks_that_do_not_see_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("convdyno.run.hand.CHUNK", 100)
    content = bytes(range(256)) * 3
    for rank, there in enumerate([content, None, b"an older one", content]):
        (tmp_path / str(rank)).mkdir()
        if there is not None:
            (tmp_path / str(rank) / "file").write_bytes(there)

    def read(world: World, huddle: Huddle) -> tuple[bytes, Path]:
        path = tmp_path / str(world.rank) / "file"
        with file_of_first(path, world, huddle) as found:
            return found.read_bytes(), found

    found = ranks_here.together(4, read)
    assert [text for text, _ in found] == [content] * 4
    assert found[0][1] == tmp_path / "0" / "file"
    assert not any(path.exists() for _, path in found[1:3])
    assert (tmp_path / "2" / "file").read_bytes() == b"an older one"


def test_a_file_that_all_see_is_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("here")

    def where(world: World, huddle: Huddle) -> Path:
        with file_of_first(path, world, huddle) as found:
            return found

    assert ranks_here.together(2, where) == [path] * 2


def test_what_all_have_found_is_said_once() -> None:
    def fail(world: World, huddle: Huddle) -> None:
        fail_together(UsageError("no"), world, huddle)

    first, second = ranks_here.together(2, fail)
    assert isinstance(first, UsageError)
    assert isinstance(second, TrialFailed) and "hung up" in str(second)
