"""Sent to a far host as text and run there, before anything of convdyno is on it.

It says what the host has and, when told for which engine, finds a Python that can run convdyno's
worker, or makes one. It needs nothing but Python's own library. JSON lines both ways:

| in | out |
|---|---|
|                          | `found`: its Python, how many cores and GPUs there are |
| `{"do": "settle", ...}`  | `settled`: which Python, and the folder to put on its path |
|                          | before that, `need`: send the bundle; `installing`: have patience |

It ends, with whatever it started, when its input closes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CORE = ["numpy", "psutil", "pydantic", "safetensors"]
"""What every worker imports."""
BUNDLE = re.compile(r"convdyno-[^/]+-[0-9a-f]{12}")
KEEP_SECONDS = 30 * 24 * 3600
"""How long a bundle that nobody uses stays."""
MISSING = """
import importlib.util, json, sys
gone = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
print(json.dumps(["Python 3.11"] * (sys.version_info < (3, 11)) + gone))
"""
OWN = "import convdyno, json; print(json.dumps(convdyno.__version__))"


class Failed(Exception):
    """One sentence for the user, without the host's name."""


def say(event: str, **more: Any) -> None:
    """One line to the parent."""
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """End with whatever was started when the input closes, though something is being waited for."""
    closed = getattr(select, "POLLRDHUP", None)
    if closed is None:
        return

    def watch() -> None:
        poll = select.poll()
        poll.register(0, closed)
        poll.poll()
        os.killpg(0, signal.SIGKILL)  # ssh gives every command a process group of its own.

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Say what is here, and settle as often as asked to."""
    end_with_parent()
    sys.stdout.write("convdyno is here\n")
    say("found", python=sys.executable, host=socket.gethostname(), cores=cores(), gpus=gpus())
    for line in sys.stdin.buffer:
        order = json.loads(line)
        order.pop("do")
        try:
            say("settled", **settle(**order))
        except Failed as wrong:
            say("failed", reason=str(wrong))
        except OSError as wrong:
            say("failed", reason=f"{wrong.filename or 'the disk'}: {wrong.strerror}")


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gpus() -> int:
    """NVIDIA's, as far as they are shown to this process."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is not None:
        return len([name for name in shown.split(",") if name])
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def settle(
    folder: str, name: str, file: str, size: int, constraints: str, modules: list[str],
    extras: list[str], pythons: list[str], given: bool,
) -> dict[str, Any]:  # fmt: skip
    """What runs a worker: a Python, the folder of convdyno, and its version if it is not ours."""
    if given and (own := answer(pythons[0], OWN)) is not None:
        return {"python": found(pythons[0]), "path": "", "convdyno": own}
    root = Path(folder).expanduser()
    if not root.is_absolute():
        root = Path.home() / root
    root.mkdir(parents=True, exist_ok=True)
    with alone(root / ".lock"):
        path = unpacked(root, name, file, size, constraints)
        for python in pythons:
            gone = lacks(python, modules)
            if gone == []:
                return {"python": found(python), "path": str(path), "convdyno": None}
        if given:  # It was the only one.
            why = f"lacks {', '.join(gone)}" if gone else "is no Python there"
            raise Failed(f"{python} {why}")
        made = installed(root, path, file, extras, constraints)
    return {"python": str(made), "path": str(path), "convdyno": None}


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """One at a time: hosts may share the folder, and two runs may meet on one."""
    with lock.open("a") as file:
        with contextlib.suppress(OSError):  # Some file systems have no locks.
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def unpacked(root: Path, name: str, file: str, size: int, constraints: str) -> Path:
    """The bundle's folder, which is there whole or not at all."""
    whole = root / name
    if whole.is_dir():
        os.utime(whole)
        return whole
    forget_old(root)
    say("need")
    content = sys.stdin.buffer.read(size)
    if len(content) < size:
        sys.exit(1)
    part = root / f".{name}.{socket.gethostname()}.{os.getpid()}"
    part.mkdir()
    try:
        (part / file).write_bytes(content)
        (part / "constraints.txt").write_text(constraints)
        with zipfile.ZipFile(part / file) as archive:
            archive.extractall(part)
        part.rename(whole)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return whole


def forget_old(root: Path) -> None:
    """Remove the bundles that nobody has used for a long time, and nothing else."""
    for other in root.glob("convdyno-*"):
        ours = BUNDLE.fullmatch(other.name) and (other / "constraints.txt").is_file()
        if ours and time.time() - other.stat().st_mtime > KEEP_SECONDS:
            shutil.rmtree(other, ignore_errors=True)


def lacks(python: str, modules: list[str]) -> list[str] | None:
    """What a Python would need to run a worker; None if it is no Python at all."""
    gone = answer(python, MISSING, *CORE, *modules)
    return gone if isinstance(gone, list) else None


def answer(python: str, script: str, *arguments: str) -> Any:
    """What a script prints under some Python; None if that fails."""
    program = found(python)
    if program is None:
        return None
    command = [program, "-c", script, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, cwd="/", timeout=60
        )
        return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None


def found(python: str) -> str | None:
    """Where a program is."""
    return shutil.which(os.path.expanduser(python))  # noqa: PTH111, a name must stay a name


def installed(root: Path, path: Path, file: str, extras: list[str], constraints: str) -> Path:
    """The Python of an environment in the folder, made if it is not there."""
    facts = [constraints, sorted(extras), sys.version_info[:2], platform.machine()]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]
    home = root / f"venv-{digest}"
    python = home / "bin" / "python"
    if (home / "ready").exists():
        return python
    what = ", ".join(extras) or "convdyno"
    say("installing", what=what, where=str(home))
    log = root / f"{home.name}.log"
    log.unlink(missing_ok=True)
    shutil.rmtree(home, ignore_errors=True)
    run([sys.executable, "-m", "venv", str(home)], log, f"no environment could be made in {home}")
    wheel = f"{path / file}[{','.join(extras)}]" if extras else str(path / file)
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command = [*pip, "-c", str(path / "constraints.txt"), wheel]
    run(command, log, f"{what} could not be installed in {home}")
    (home / "ready").touch()
    return python


def run(command: list[str], log: Path, failing: str) -> None:
    """Run a command that takes a while."""
    with log.open("ab") as said:
        code = subprocess.call(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    if code:
        raise Failed(
            f"{failing}: {_complaint(log)} (more in {log}); name a Python that has it with --python"
        )


def _complaint(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line.partition("ERROR:")[2].strip() for line in lines if "ERROR:" in line]
    return (errors[:1] or lines[-1:] or ["nothing was said"])[0].rstrip(".")[:300]


if __name__ == "__main__":
    main()
