"""At most one agent works in a home: two would both copy the same logs, and each byte would stand there twice.

Two can be there for a moment on Kubernetes: a pod that is deleted by force goes on until its kubelet hears of it, and
one DaemonSet may follow another on a node. The later one waits. The lock is the kernel's, so it goes with its process.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

LOCK_FILE: Final = "agent.lock"
_AGAIN_S: Final = 0.2
_log = logging.getLogger(__name__)


def lock_of(home: Path) -> IO[bytes]:
    """What one agent holds while it works there."""
    home.mkdir(parents=True, exist_ok=True)
    return (home / LOCK_FILE).open("ab")


async def is_alone(lock: IO[bytes], stopping: asyncio.Event) -> bool:
    """Return once no other agent works there, or with False where it is asked to stop before."""
    if _is_taken(lock):
        return True
    _log.warning("another agent works with %s; this one waits for its end", lock.name)
    while not stopping.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN_S):
                await stopping.wait()
        if not stopping.is_set() and _is_taken(lock):
            return True
    return False


def _is_taken(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
