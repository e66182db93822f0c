"""Who takes part in a trial: one neutral description that each engine translates."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class World(BaseModel):
    """One rank's view of all ranks; rank 0 is where they meet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rank: Annotated[int, Field(ge=0)] = 0
    size: Annotated[int, Field(ge=1)] = 1
    local_rank: Annotated[int, Field(ge=0)] = 0
    """The place among the ranks of the same host."""
    local_size: Annotated[int, Field(ge=1)] = 1
    peers: tuple[str, ...] = ()
    """The `host:port` at which each rank can be reached; all meet at the first."""
    meeting: str = ""
    """The `host:port` at which rank 0 listens for small agreements between ranks."""
    token: str = ""
    """What the ranks know each other by at the meeting."""
    interface: str | None = None
    """The network interface that this rank's address belongs to, where that is known."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 60.0
    """After how long an engine gives up waiting for another rank."""

    @property
    def alone(self) -> bool:
        """Whether there is nobody else."""
        return self.size == 1

    @property
    def host(self) -> str:
        """The address of this rank."""
        return self.peers[self.rank].rpartition(":")[0]

    @property
    def address(self) -> str:
        """The address of rank 0, where all meet."""
        return self.peers[0].rpartition(":")[0]

    @property
    def port(self) -> int:
        """The port of rank 0, where all meet."""
        return int(self.peers[0].rpartition(":")[2])
