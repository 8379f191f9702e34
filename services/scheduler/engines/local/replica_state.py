"""What became of a replica, read off its files.

Never started: `started.json` and `exit.json` are empty. Running: `started.json` is not, and the lock is held. Ended:
`exit.json` is not empty, and the lock is free. Where the lock is free although a started replica has told no end, its
runner was killed or the machine went down; whoever sees it first, holding the lock, writes that down as the end. A file
that a crash left torn counts as empty.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, TypeVar

from pydantic import TypeAdapter

from services.scheduler.engines.local.files import read_text, try_lock, write_in_place
from services.scheduler.engines.local.gang_dir import ReplicaDir
from shared.clock import Clock
from shared.events import OutOfMemory, ReplicaExit

Cause = Literal["ended", "lost", "never-started"]


@dataclass(frozen=True, slots=True)
class Started:
    """Content of `started.json`."""

    started_at: datetime


@dataclass(frozen=True, slots=True)
class Ended:
    """Content of `exit.json`; the runner writes no cause, the engine no status."""

    ended_at: datetime
    wait_status: int | None = None
    stopped_by_us: bool = False
    oom: OutOfMemory = OutOfMemory.NONE
    cause: Cause = "ended"
    message: str = ""


Fact = TypeVar("Fact", Started, Ended)

_STARTED: Final = TypeAdapter(Started)
_ENDED: Final = TypeAdapter(Ended)


def started(replica: ReplicaDir) -> Started | None:
    """When the command was started, if it ever was."""
    return _whole(_STARTED, replica.started)


def ended(replica: ReplicaDir) -> Ended | None:
    """How the replica ended, if it did."""
    return _whole(_ENDED, replica.exit)


def _whole(kind: TypeAdapter[Fact], file: Path) -> Fact | None:
    try:
        text = read_text(file)
        return kind.validate_json(text) if text else None
    except ValueError:
        return None


def is_settled(replica: ReplicaDir) -> bool:
    """Whether nothing of the replica is left."""
    lock = try_lock(replica.lock)
    if lock is None:
        return False
    os.close(lock)
    return True


def conclude(replica: ReplicaDir, cause: Cause, message: str, clock: Clock) -> bool:
    """Write down the end of a replica that nothing is left of and that told none itself; false where that is not so."""
    lock = try_lock(replica.lock)
    if lock is None:
        return False
    try:
        if ended(replica) is not None or (cause == "never-started" and started(replica) is not None):
            return False
        end = Ended(ended_at=clock.now(), cause=cause, message=message)
        write_in_place(replica.exit, _ENDED.dump_json(end).decode())
    finally:
        os.close(lock)
    return True


def exit_of(end: Ended) -> ReplicaExit:
    """The end as the platform records it."""
    if end.cause != "ended":
        return ReplicaExit(cause=end.cause, message=end.message)
    if end.wait_status is None:
        return ReplicaExit(cause="never-started", message="it was stopped before its command was started")
    killed = os.WIFSIGNALED(end.wait_status)
    return ReplicaExit(
        code=None if killed else os.WEXITSTATUS(end.wait_status),
        signal=os.WTERMSIG(end.wait_status) if killed else None,
        out_of_memory=end.oom,
        cause="stopped" if end.stopped_by_us else "exited",
    )
