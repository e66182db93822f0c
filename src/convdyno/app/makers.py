"""Who makes a certificate: the code, versions, device and switches that decide what comes out.

A stored certificate holds for as long as all of these are the same; else it is made again.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path

import convdyno
from convdyno.machine import facts, processor
from convdyno.store.certificate import Maker

ROOT = Path(convdyno.__file__).parent
PROVING = (
    "blueprint",
    "data/synthetic.py",
    "engines/*.py",
    "run/asked.py",
    "run/dropout_evidence.py",
    "run/evidence.py",
    "run/limits.py",
    "run/rule_numbers.py",
    "stage/certify.py",
    "stage/culprit.py",
    "stage/differences.py",
    "store/certificate.py",
    "trial/manner.py",
    "trial/suspects.py",
)
"""The sources of the reference and of the proof: files, or folders with all in them."""
PACKAGES = {"torch": ("torch",), "jax": ("jax", "jaxlib"), "tensorflow": ("tensorflow",)}
"""What does a framework's arithmetic."""
SWITCHES = (
    "CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "JAX_", "KERAS_", "MKL_", "NVIDIA_TF32_OVERRIDE",
    "ONEDNN_", "OPENBLAS_", "PYTORCH_", "TF_", "TORCH_", "TORCHINDUCTOR_", "XLA_",
)  # fmt: skip
"""How names begin of variables that can change what a framework computes."""
HARMLESS = ("_DIR", "_FILE", "_LEVEL", "CUDA_VISIBLE_DEVICES")
"""How names end of such that do not."""


def maker(engine: str) -> Maker:
    """All that decides what an engine computes, as it is now."""
    base, _, backend = engine.partition("/")
    packages = ["numpy", *PACKAGES.get(backend or base, ()), *(["keras"] if backend else [])]
    return Maker(
        convdyno=convdyno.__version__,
        sources=sources(engine),
        versions={package: _version(package) for package in packages},
        device=_device(),
        switches=_switches(),
    )


def sources(engine: str) -> str:
    """The digest of every source that lowers, steps and proves, for one engine."""
    base, _, backend = engine.partition("/")
    wanted = [*PROVING, f"engines/{base}", f"engines/frameworks/{backend or base}"]
    return _digest(tuple(wanted))


@cache
def _digest(wanted: tuple[str, ...]) -> str:
    found = sha256()
    for pattern in wanted:
        there = ROOT / pattern
        paths = there.rglob("*.py") if there.is_dir() else ROOT.glob(pattern)
        for path in sorted(paths):
            found.update(f"{path.relative_to(ROOT).as_posix()}\0".encode() + path.read_bytes())
    return found.hexdigest()


@cache
def _device() -> str:
    names = [processor.name(), *sorted(gpu.get("name", "?") for gpu in facts.gpus())]
    return ", ".join(names)


def _switches() -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(SWITCHES) and not name.endswith(HARMLESS)
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
