"""What an attempt has saved in its checkpoint directory, told to the watchdog beside the log.

The directory may be on a file system that hangs. So it is looked at in threads of its own, seldom, and a look that does
not come back keeps nobody else waiting: its replica is passed over until it does. After the end of a replica one last
look is taken, and the end of its log waits for that a moment (`holds_end`), since the decision about a retry is made as
soon as logs have ended. Every look tells the furthest of the files that were written since the attempt began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from services.agent.courier import Publisher
from services.agent.gangs import Gangs
from services.agent.replica import Replica
from services.agent.source import is_directory_beneath
from services.agent.walk import entries, is_written_since
from shared.checkpoints import furthest
from shared.errors import UnavailableError
from shared.logs_wire import Chunk, ReplicaRef, is_safe_path

EVERY_S: Final = 15.0
LAST_LOOK_S: Final = 2.0
"""How long the end of a log waits for the last look."""
MAX_ENTRIES: Final = 5_000
_LOOKS_AT_ONCE: Final = 4


class Checkpoints:
    """The lane that looks at checkpoint directories."""

    def __init__(self, gangs: Gangs, publisher: Publisher, wake_logs: Callable[[], None]) -> None:
        self._gangs = gangs
        self._publisher = publisher
        self._wake_logs = wake_logs
        self._threads = ThreadPoolExecutor(_LOOKS_AT_ONCE, "checkpoints")
        self._looks: dict[ReplicaRef, asyncio.Task[None]] = {}
        self._due_at: dict[ReplicaRef, float] = {}
        self._ended_at: dict[ReplicaRef, float] = {}
        self._seen_to_the_end: set[ReplicaRef] = set()
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                self.look(asyncio.get_running_loop().time())
                self._woken.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(EVERY_S / 3):
                        await self._woken.wait()
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def look(self, now_s: float) -> None:
        """Begin the looks that are due."""
        watched = [replica for replica in self._gangs.replicas.values() if replica.manifest.checkpoints is not None]
        self._forget_all_but({replica.manifest.replica for replica in watched})
        for replica in watched:
            ref = replica.manifest.replica
            is_last = ref in self._ended_at and ref not in self._seen_to_the_end
            due = is_last or (ref not in self._ended_at and now_s >= self._due_at.get(ref, 0.0))
            if due and ref not in self._looks:
                self._due_at[ref] = now_s + EVERY_S
                self._looks[ref] = asyncio.create_task(self._look_at(replica, is_last=is_last))

    def holds_end(self, replica: Replica, now_s: float) -> bool:
        """Whether the end of the replica, which has ended, is to wait for the last look at what it saved."""
        ref = replica.manifest.replica
        if replica.manifest.checkpoints is None or ref in self._seen_to_the_end:
            return False
        if ref not in self._ended_at:
            self._ended_at[ref] = now_s
            self._woken.set()
        return now_s - self._ended_at[ref] < LAST_LOOK_S

    async def _look_at(self, replica: Replica, *, is_last: bool) -> None:
        ref, loop = replica.manifest.replica, asyncio.get_running_loop()
        try:
            path = await loop.run_in_executor(self._threads, saved_by, replica)
            if path is not None:
                with suppress(UnavailableError):
                    await self._publisher.publish(_mark(replica, path), replica.log.number)
        finally:
            del self._looks[ref]
        if is_last:
            self._seen_to_the_end.add(ref)
            self._wake_logs()
        elif ref in self._ended_at:  # it ended during this look
            self._woken.set()

    def _forget_all_but(self, live: set[ReplicaRef]) -> None:
        self._seen_to_the_end &= live
        for times in (self._due_at, self._ended_at):
            for ref in times.keys() - live:
                del times[ref]


def saved_by(replica: Replica) -> str | None:
    """Path below the checkpoint directory of the furthest file that the attempt has written; may take long."""
    place = replica.manifest.checkpoints
    if place is None or not is_directory_beneath(Path(place.root), str(place.below)):
        return None
    root, since_s = Path(place.root) / place.below, replica.manifest.started_at_s
    with suppress(OSError):
        return furthest(
            path
            for path, entry in entries(root, most=MAX_ENTRIES)
            if entry.is_file(follow_symlinks=False) and is_safe_path(path) and is_written_since(entry, since_s)
        )
    return None


def _mark(replica: Replica, path: str) -> Chunk:
    tail = replica.log.tail
    return Chunk(tail.file, 0, generation=tail.generation, node=replica.manifest.node, checkpoint=path)
