"""The bundle: this very convdyno as a wheel that other hosts run or install."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import convdyno
from convdyno import __version__
from convdyno.launch.bundle import bundle


def test_it_has_every_file_of_the_package_and_no_other() -> None:
    root = Path(convdyno.__file__).parent
    here = {p.relative_to(root.parent).as_posix() for p in root.rglob("*") if p.is_file()}
    with zipfile.ZipFile(io.BytesIO(bundle().wheel)) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {name for name in here if "__pycache__" not in name}
    assert "convdyno/data/native/crop.c" in packed


def test_the_same_source_makes_the_same_bundle() -> None:
    first = bundle()
    bundle.cache_clear()
    assert bundle() == first
    assert first.name == f"convdyno-{__version__}-{first.digest[:12]}"


def test_constraints_pin_what_is_installed_here() -> None:
    pins = dict(line.split("==") for line in bundle().constraints.splitlines())
    import numpy

    assert pins["numpy"] == numpy.__version__
    assert "convdyno" not in pins
    assert not any("+" in version for version in pins.values())


def test_pip_installs_it_and_it_runs(tmp_path: Path) -> None:
    wheel = tmp_path / bundle().file
    wheel.write_bytes(bundle().wheel)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(tmp_path / "to"), str(wheel)], check=True)
    show = (
        "import convdyno, importlib.metadata as m; print(convdyno.__file__, m.version('convdyno'))"
    )
    said = subprocess.run(
        [sys.executable, "-c", show],
        env={"PYTHONPATH": str(tmp_path / "to")}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert said.split() == [str(tmp_path / "to" / "convdyno" / "__init__.py"), __version__]
    requires = (tmp_path / "to" / f"convdyno-{__version__}.dist-info" / "METADATA").read_text()
    assert "Provides-Extra: torch" in requires
