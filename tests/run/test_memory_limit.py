"""What a worker does about memory before it begins."""

import resource
from pathlib import Path

import pytest

from convdyno.run import worker


def test_a_container_that_forbids_to_go_first_keeps_no_worker_from_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(self: Path, text: str) -> int:
        raise PermissionError(13, "Permission denied", str(self))

    limits = []
    monkeypatch.setattr(worker.sys, "platform", "linux")
    monkeypatch.setattr(Path, "exists", lambda self: False)
    monkeypatch.setattr(Path, "write_text", forbidden)
    monkeypatch.setattr("convdyno.machine.facts.free_memory", lambda: 4096)
    monkeypatch.setattr(resource, "setrlimit", lambda kind, most: limits.append((kind, most)))
    worker._be_first_to_go()
    assert limits == [(resource.RLIMIT_DATA, (4096, 4096))]
