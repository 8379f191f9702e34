"""Finds processes that a lost runner left behind, where no PID namespace took them with it.

A replica's processes have its identity in their environment (design: `TM_JOB_ID` and its like), and a child has that of
its parent unless somebody took pains to change it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from services.scheduler.ports.reports import ReplicaRef


def end_strays(replica: ReplicaRef) -> int:
    """Kill what is left of the replica; the number of processes found."""
    found = list(_strays(_marks(replica)))
    for pid in found:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def _marks(replica: ReplicaRef) -> frozenset[bytes]:
    marks = {
        "TM_JOB_ID": replica.job,
        "TM_ATTEMPT": replica.attempt,
        "TM_ROLE": replica.role,
        "TM_INDEX": replica.index,
    }
    return frozenset(f"{name}={value}".encode() for name, value in marks.items())


def _strays(marks: frozenset[bytes]) -> Iterator[int]:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if marks <= set((process / "environ").read_bytes().split(b"\0")):
                    yield int(process.name)
