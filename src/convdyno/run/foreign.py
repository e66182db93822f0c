"""Other tools' weight files, read in a process of its own so that no framework enters the parent.

echo '{"path": "model.pth", "to": "arrays.safetensors"}' | python -m convdyno.run.foreign
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from convdyno.blueprint.weight_file import read_header, read_tensors, write_tensors
from convdyno.blueprint.weights import Weights
from convdyno.engines import registry
from convdyno.errors import BadWeights, ConvdynoError
from convdyno.zoo.foreign import h5

READERS = {
    ".pt": registry.read_state_dict,
    ".pth": registry.read_state_dict,
    ".h5": h5.read,
    ".hdf5": h5.read,
}
REAL = ("F64", "F32", "F16", "BF16")
SECONDS = 600


def read_foreign(path: Path) -> Weights:
    """The real-valued arrays of a `.safetensors`, `.pt`, `.pth` or `.h5` file, as it names them."""
    kind = path.suffix.lower()
    if kind == ".safetensors":
        return _real(path)
    if kind not in READERS:
        raise BadWeights(
            f"{path} is of no known kind; weights are read from .safetensors, {', '.join(READERS)}"
        )
    if not path.is_file():
        raise BadWeights(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    if READERS[kind] is registry.read_state_dict:
        registry.check("torch")
    with tempfile.TemporaryDirectory(prefix="convdyno-") as folder:
        to = Path(folder) / "arrays.safetensors"
        _ask(path, to)
        return _real(to)


def _ask(path: Path, to: Path) -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "convdyno.run.foreign"],
            input=json.dumps({"path": str(path.absolute()), "to": str(to)}),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise BadWeights(f"{path} could not be read within {SECONDS} s") from None
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        words = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise BadWeights(f"{path} could not be read: {words[-1][:300]}") from None
    if "problem" in answer:
        raise BadWeights(answer["problem"])


def _real(path: Path) -> Weights:
    header = read_header(path)
    real = [name for name, tensor in header.tensors.items() if tensor.dtype in REAL]
    return read_tensors(header, real)


def main() -> None:
    """Read one request from standard input, write the arrays to its file, answer in one line."""
    request = json.loads(sys.stdin.read())
    path = Path(request["path"])
    answer: dict[str, object] = {}
    try:
        arrays = READERS[path.suffix.lower()](path)
        plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        write_tensors(Path(request["to"]), plain, {})
        answer["arrays"] = len(plain)
    except ConvdynoError as problem:
        answer["problem"] = str(problem)
    except Exception as wrong:  # Whatever a reader makes of a strange file is the file's fault.
        line = str(wrong).strip().partition("\n")[0][:200]
        answer["problem"] = f"{path} cannot be read: {type(wrong).__name__}: {line}"
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
