"""CIFAR-10's python files, read without unpickling.

They are pickles of one dict. The opcodes are read by the standard library's `pickletools`, which
runs nothing, and a stack machine of a few rules builds dict, list, tuple, str, bytes, int, bool,
None and byte arrays. Everything else that a pickle can ask for is refused: nothing named in a file
is ever imported or called.
"""

from __future__ import annotations

import math
import pickletools
from typing import Any, cast

import numpy as np

from convdyno.errors import BadData

RECONSTRUCT = {"numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct"}
FROM_BUFFER = {"numpy.core.numeric _frombuffer", "numpy._core.numeric _frombuffer"}
DTYPE = "numpy dtype"
ENCODE = "_codecs encode"
NAMES = RECONSTRUCT | FROM_BUFFER | {DTYPE, ENCODE, "numpy ndarray"}
DTYPES = {"u1": "u1", "|u1": "u1", "uint8": "u1", "i8": "<i8", "<i8": "<i8", "i4": "<i4"}
MOST_DIMENSIONS = 4
CONSTANTS = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE",
    "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
}  # fmt: skip
EMPTY: dict[str, Any] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
FIXED = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
IGNORED = {"PROTO", "FRAME"}


class _Mark:
    """Where a run of items on the stack begins."""


class _Name:
    """One of the few names that are known; never imported."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Dtype:
    """The type of an array's elements."""

    def __init__(self, code: object) -> None:
        if not isinstance(code, str) or code not in DTYPES:
            raise ValueError(f"an array of {str(code)[:20]!r}")
        self.code = DTYPES[code]


class _Array:
    """An array whose state comes later."""

    values: np.ndarray[Any, Any] | None = None

    def fill(self, shape: object, dtype: object, fortran: object, data: object) -> None:
        """Take the bytes as they are: an array is never larger than what the file holds."""
        content = data.encode("latin-1") if isinstance(data, str) else data
        if not isinstance(dtype, _Dtype) or not isinstance(content, bytes) or fortran:
            raise ValueError("an array without plain bytes")
        whole = isinstance(shape, tuple) and len(shape) <= MOST_DIMENSIONS
        if not whole or not all(type(n) is int and n >= 0 for n in shape):  # type: ignore[attr-defined]
            raise ValueError("an array without a shape")
        assert isinstance(shape, tuple)
        if math.prod(shape) * np.dtype(dtype.code).itemsize != len(content):
            raise ValueError("an array whose shape does not fit its bytes")
        self.values = np.frombuffer(content, dtype.code).reshape(shape)


def read_pickled(content: bytes, where: str) -> dict[str, Any]:
    """The dict of a CIFAR-10 python file; arrays are NumPy arrays, text is str."""
    try:
        found = _run(content)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, AttributeError) as error:
        raise BadData(f"{where} is no CIFAR-10 python file: {str(error)[:120]}") from error
    if not isinstance(found, dict):
        raise BadData(f"{where} is no CIFAR-10 python file: it holds no dict")
    plain = {}
    for key, value in found.items():
        word = key.decode("latin-1") if isinstance(key, bytes) else key
        if isinstance(word, str):
            plain[word] = value.values if isinstance(value, _Array) else value
    return plain


def _run(content: bytes) -> object:
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for opcode, found, position in pickletools.genops(content):
        name, argument = opcode.name, cast(Any, found)
        if name in CONSTANTS:
            stack.append(bytes(argument) if isinstance(argument, bytearray) else argument)
        elif name in FIXED:
            stack.append(FIXED[name])
        elif name in EMPTY:
            stack.append(EMPTY[name]())
        elif name == "MARK":
            stack.append(_Mark)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in SHORT_TUPLES:
            items = [stack.pop() for _ in range(SHORT_TUPLES[name])]
            stack.append(tuple(reversed(items)))
        elif name in ("TUPLE", "LIST"):
            stack.append((tuple if name == "TUPLE" else list)(_to_mark(stack)))
        elif name == "DICT":
            stack.append(_pairs(_to_mark(stack)))
        elif name in ("APPEND", "APPENDS"):
            items = [stack.pop()] if name == "APPEND" else _to_mark(stack)
            _top(stack, list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = [stack.pop(), stack.pop()][::-1] if name == "SETITEM" else _to_mark(stack)
            _top(stack, dict).update(_pairs(items))
        elif name == "GLOBAL":
            stack.append(_known(argument))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(_known(f"{module} {attribute}"))
        elif name == "REDUCE":
            arguments, called = stack.pop(), stack.pop()
            stack.append(_reduced(called, arguments))
        elif name == "BUILD":
            _build(stack.pop(), stack[-1])
        elif name == "STOP":
            return stack.pop()
        elif name not in IGNORED:
            raise ValueError(f"the opcode {name} at byte {position} is not allowed")
    raise ValueError("it has no end")


def _to_mark(stack: list[Any]) -> list[Any]:
    items = []
    while (item := stack.pop()) is not _Mark:
        items.append(item)
    return items[::-1]


def _top(stack: list[Any], kind: type) -> Any:
    if type(stack[-1]) is not kind:
        raise ValueError(f"something is added to what is no {kind.__name__}")
    return stack[-1]


def _pairs(items: list[Any]) -> dict[Any, Any]:
    if not all(isinstance(key, str | bytes | int) for key in items[::2]):
        raise ValueError("a dict has a key that is no text")
    return dict(zip(items[::2], items[1::2], strict=True))


def _known(name: str) -> _Name:
    if name not in NAMES:
        raise ValueError(f"it names {name[:60]!r}, and nothing but plain arrays may be built")
    return _Name(name)


def _reduced(called: object, arguments: object) -> object:
    if not isinstance(called, _Name) or not isinstance(arguments, tuple):
        raise ValueError("it calls something that is no name")
    if called.name == DTYPE:
        return _Dtype(arguments[0])
    if called.name in RECONSTRUCT:
        return _Array()
    if called.name == ENCODE and isinstance(arguments[0], str) and arguments[1:] == ("latin1",):
        # How Python 3 writes bytes in the older protocols.
        return arguments[0].encode("latin-1")
    if called.name in FROM_BUFFER and len(arguments) == 4:
        buffer, dtype, shape, order = arguments
        array = _Array()
        array.fill(shape, dtype, order == "F", buffer)
        return array
    raise ValueError(f"it calls {called.name!r}")


def _build(state: object, built: object) -> None:
    if isinstance(built, _Array) and isinstance(state, tuple) and len(state) == 5:
        _, shape, dtype, fortran, data = state
        built.fill(shape, dtype, fortran, data)
    elif not isinstance(built, _Dtype):
        raise ValueError("it sets the state of something that is no array")
    elif not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("|", "<", b"|", b"<"):
        raise ValueError("an array has its bytes in another order")
