"""The nodes file, and how many of its hosts a number of devices takes."""

from pathlib import Path
from typing import Any

import pytest

from convdyno.errors import UsageError
from convdyno.launch.nodes import NodeLine, Nodes, read_nodes


def nodes(tmp_path: Path, text: str, per_node: int = 1) -> Nodes:
    file = tmp_path / "nodes.txt"
    file.write_text(text)
    return read_nodes(file, per_node)


def test_lines_are_a_host_and_its_alias(tmp_path: Path) -> None:
    text = (
        "# our machines\nn1 gpu-a\n\n  n2\tuser@gpu-b  # the new one\nn3\n10.0.0.7 x\nfe80::1 y\n"
    )
    assert nodes(tmp_path, text).hosts == (
        NodeLine("n1", "gpu-a"),
        NodeLine("n2", "user@gpu-b"),
        NodeLine("n3", "n3"),
        NodeLine("10.0.0.7", "x"),
        NodeLine("fe80::1", "y"),
    )


def test_an_alias_is_taken_as_it_stands(tmp_path: Path) -> None:
    text = "n1 'two words'\nn2 \"it's\"\nn3 $(reboot)\nn4 `id`;x\n"
    aliases = [node.alias for node in nodes(tmp_path, text).hosts]
    assert aliases == ["two words", "it's", "$(reboot)", "`id`;x"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("n1 a\nn2 b c\n", "line 2: 'n2 b c' should be 'host ssh-alias'"),
        ("n1 a\n\nn2 'b\n", 'line 3: "n2 \'b" has no closing quotation'),
        ("n1 a\nn1 b\n", "line 2: the host 'n1' is on line 1 already"),
        ("n1 a\nn2 a\n", "line 2: the alias 'a' is on line 1 already"),
        ("n1 ''\n", "line 1: \"n1 ''\" should be 'host ssh-alias'"),
        ("$(id) a\n", "line 1: '$(id)' is no host name"),
        ("'n 1' a\n", "line 1: 'n 1' is no host name"),
        ("n1 -oProxyCommand=id\n", "line 1: '-oProxyCommand=id' is no ssh alias"),
        ("# nobody\n", "names no host"),
        ("", "names no host"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as told:
        nodes(tmp_path, text)
    assert sentence in str(told.value)
    assert "nodes.txt" in str(told.value)


LONG = {
    "a host of a megabyte": b"n" * (1 << 20) + b" a\n",
    "a line of half a megabyte": b"# " + b"x" * (1 << 19) + b"\n",
    "a host that no network knows": b"n" * 300 + b" a\n",
    "an alias of 300 characters": b"n1 " + b"a" * 300 + b"\n",
    "a megabyte of quotes": b"'" * (1 << 20),
    "a disk": bytes(3 << 20),
}


@pytest.mark.parametrize("content", LONG.values(), ids=LONG)
def test_what_is_much_too_long_is_one_short_sentence(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "nodes.txt"
    file.write_bytes(content)
    with pytest.raises(UsageError) as told:
        read_nodes(file)
    assert str(file) in str(told.value) and len(str(told.value)) < len(str(file)) + 100


def test_a_bench_with_a_host_of_a_megabyte_ends_at_once(tmp_path: Path, convdyno: Any) -> None:
    (tmp_path / "nodes.txt").write_bytes(LONG["a host of a megabyte"])
    done = convdyno("bench", "deepmnist", "--engine", "clockwork", "--nodes", "nodes.txt")
    assert done.code == 2
    assert done.err.count("\n") == 1 and "nodes.txt" in done.err


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.txt cannot be read: No such file"):
        read_nodes(tmp_path / "none.txt")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_nodes(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read: it is no text"):
        read_nodes(tmp_path / "binary")


@pytest.mark.parametrize(
    ("hosts", "per_node", "most", "counts"),
    [
        (1, 1, None, [1]),
        (4, 2, None, [1, 2, 4, 8]),
        (4, 2, 8, [1, 2, 4, 8]),
        (4, 2, 5, None),
        (4, 2, 6, [1, 2, 4, 6]),
        (3, 1, None, [1, 2, 3]),
        (3, 1, 2, [1, 2]),
        (2, 3, None, [1, 2, 4, 6]),
        (1, 8, 8, [1, 2, 4, 8]),
        (5, 3, None, [1, 2, 4, 8, 15]),
    ],
)
def test_devices_double_up_to_the_most(
    tmp_path: Path, hosts: int, per_node: int, most: int | None, counts: list[int] | None
) -> None:
    found = nodes(tmp_path, "".join(f"n{n}\n" for n in range(hosts)), per_node)
    if counts is None:
        with pytest.raises(UsageError, match="5 devices cannot be spread evenly over the 4 hosts"):
            found.counts(most)
    else:
        assert found.counts(most) == counts


def test_devices_fill_the_first_hosts_first(tmp_path: Path) -> None:
    found = nodes(tmp_path, "a\nb\nc\nd\n", per_node=3)
    taken = {n: len(found.spread(n)) for n in (1, 2, 3, 4, 6, 8, 9, 12)}
    assert taken == {1: 1, 2: 1, 3: 1, 4: 2, 6: 2, 8: 4, 9: 3, 12: 4}
    assert [node.host for node in found.spread(4)] == ["a", "b"]


def test_too_many_devices_are_told_how_many_there_are(tmp_path: Path) -> None:
    found = nodes(tmp_path, "a\nb\nc\n", per_node=2)
    for ask in (found.counts, found.spread):
        with pytest.raises(
            UsageError, match=r"8 devices were asked for.* 3 hosts with 2 each.*6 in"
        ):
            ask(8)
    with pytest.raises(UsageError, match="one is the least"):
        found.counts(0)
    with pytest.raises(UsageError, match="--per-node cannot be 0"):
        read_nodes(found.file, 0)
