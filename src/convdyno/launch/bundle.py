"""This very convdyno as one file that another host can run or install."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import convdyno
from convdyno import __version__

_TOOLS = {"convdyno", "pip", "setuptools", "wheel"}
_TIME = (1980, 1, 1, 0, 0, 0)
"""Of every file, so that the same source makes the same bundle."""


@dataclass(frozen=True)
class Bundle:
    """A wheel, and the versions of everything else that is installed here."""

    digest: str
    wheel: bytes
    constraints: str

    @property
    def name(self) -> str:
        """A name that no other content has."""
        return f"convdyno-{__version__}-{self.digest[:12]}"

    @property
    def file(self) -> str:
        """The name of the wheel, as pip wants it."""
        return f"convdyno-{__version__}-py3-none-any.whl"


@cache
def bundle() -> Bundle:
    """What this process runs, packed."""
    root = Path(next(iter(convdyno.__path__)))
    files = {
        f"convdyno/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    about = f"convdyno-{__version__}.dist-info"
    files[f"{about}/METADATA"] = _metadata().encode()
    files[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{about}/RECORD"] = _record(files, about).encode()
    constraints = _constraints()
    digest = hashlib.sha256(constraints.encode())
    for name, content in files.items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return Bundle(digest.hexdigest(), _packed(files), constraints)


def _packed(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return packed.getvalue()


def _metadata() -> str:
    """What the installed package says of itself, its dependencies above all."""
    try:
        said = metadata.distribution("convdyno").read_text("METADATA") or ""
    except metadata.PackageNotFoundError:
        said = "Metadata-Version: 2.1\nName: convdyno\nVersion: 0\n"
    head, _, _ = said.partition("\n\n")
    lines = [line for line in head.splitlines() if not line.startswith("Version:")]
    return "\n".join([*lines, f"Version: {__version__}"]) + "\n"


def _record(files: dict[str, bytes], about: str) -> str:
    rows = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows += f"{name},sha256={digest},{len(content)}\n"
    return f"{rows}{about}/RECORD,,\n"


def _constraints() -> str:
    """The versions that are installed here; a build's own mark such as +cpu is left to the host."""
    found = {str(one.metadata["Name"]).lower(): one.version for one in metadata.distributions()}
    return "".join(
        f"{name}=={found[name].partition('+')[0]}\n" for name in sorted(found.keys() - _TOOLS)
    )
