"""What can be done with the sandbox of a replica: commands for one that runs, and what one that has ended left."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from shared.errors import TrainmasterError


class ExecRefusedError(TrainmasterError):
    """No command can be run in this sandbox now."""

    code = "conflict"


ExecStream = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class ExecOutput:
    """Something that a command in a sandbox wrote."""

    stream: ExecStream
    data: bytes


@dataclass(frozen=True, slots=True)
class ExecEnded:
    """The command has ended, with the code that a shell would give; `message` where it was not its own doing."""

    code: int
    message: str = ""


class Execution(Protocol):
    """A command for a sandbox."""

    def pieces(self) -> AsyncGenerator[ExecOutput | ExecEnded, None]:
        """Start it; what it writes, and at last its end. It is ended where this is left early. To be read once."""
        ...


@dataclass(frozen=True, slots=True)
class KeptSandbox:
    """What an ended attempt left, and until when it is held; `path` is on the machine `machine`."""

    attempt: int
    machine: str
    path: str
    until: datetime
