"""The two lanes of the agent's work: logs, and event files.

A lane makes a pass when it is woken (something changed on disk, `logs` announced, the connection is back) or when its
rest is over, and rests a moment after each pass, so that many small writes become one chunk. Logs are looked at where
the loop stands, for they are on a local disk. Event files may be on a network file system that hangs: everything that
touches them runs in a thread, and a hang there holds up nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from services.agent.arrivals import Arrivals
from services.agent.checkpoints import Checkpoints
from services.agent.courier import Courier
from services.agent.gangs import Gangs
from services.agent.inotify import Inotify
from services.agent.phases import PhaseMarks
from services.agent.replica import Replica

_COALESCE_S: Final = 0.02
_REST_WATCHED_S: Final = 1.0
_REST_UNWATCHED_S: Final = 0.05
_REST_EVENT_FILES_S: Final = 0.2
_SCAN_S: Final = 1.0
_SAVE_S: Final = 1.0
_FAILED_S: Final = 1.0
_log = logging.getLogger(__name__)


class LogLane:
    """Finds replicas, ships logs, samples and phases, notices their ends, remembers, and finishes what is kept."""

    def __init__(
        self,
        gangs: Gangs,
        courier: Courier,
        arrivals: Arrivals,
        inotify: Inotify,
        phases: PhaseMarks,
        checkpoints: Checkpoints,
    ) -> None:
        self._phases = phases
        self._checkpoints = checkpoints
        self._gangs = gangs
        self._courier = courier
        self._arrivals = arrivals
        self._inotify = inotify
        self._scan_at = 0.0
        self._save_at = 0.0
        self._woken = arrivals.wake["log"]

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await survived(self.make_pass(asyncio.get_running_loop().time()))
            await asyncio.sleep(_COALESCE_S)
            self._inotify.wake_once(self._woken)
            with suppress(TimeoutError):
                async with asyncio.timeout(_REST_WATCHED_S if self._inotify.available else _REST_UNWATCHED_S):
                    await self._woken.wait()

    async def make_pass(self, now: float) -> None:
        """Look at everything once and send what there is."""
        self._woken.clear()
        check_paths = self._scan(now)
        await self._look(now, check_paths=check_paths)
        self._save(now)
        if check_paths:
            await self._phases.send(self._replicas(), now)
        await self._courier.send(
            [file for replica in self._replicas() for file in replica.own_files() if not file.tail.done]
        )
        self._finish()

    def _scan(self, now: float) -> bool:
        """Find what is new where something came or went, and now and then anyway; whether it was time for that."""
        changed = self._inotify.available and self._inotify.drain()
        due = now >= self._scan_at
        if changed or due:
            before = len(self._gangs.replicas)
            self._inotify.watch(self._gangs.scan())
            self._scan_at = now + _SCAN_S
            if len(self._gangs.replicas) != before:
                self._arrivals.wake["tb"].set()
        return due

    async def _look(self, now: float, *, check_paths: bool) -> None:
        """The end is looked for first: what the log holds after it is all that it will ever hold."""
        ended = [
            replica
            for replica in self._replicas()
            if not replica.log.tail.complete and replica.has_ended() and not self._checkpoints.holds_end(replica, now)
        ]
        files = [file for replica in self._replicas() for file in replica.own_files()]
        await self._courier.look(files, check_paths=check_paths or bool(ended))
        for replica in ended:
            for file in replica.own_files():
                file.tail.complete = True
        if ended:
            self._arrivals.wake["tb"].set()

    def _save(self, now: float) -> None:
        due = now >= self._save_at
        for replica in self._replicas():
            if due or replica.unsaved:
                replica.save()
        if due:
            self._save_at = now + _SAVE_S

    def _finish(self) -> None:
        for replica in self._replicas():
            if replica.done:
                self._gangs.finish(replica)

    def _replicas(self) -> list[Replica]:
        return list(self._gangs.replicas.values())


class EventFileLane:
    """Finds and ships the event files of those replicas that have a TensorBoard directory."""

    def __init__(self, gangs: Gangs, courier: Courier, arrivals: Arrivals) -> None:
        self._gangs = gangs
        self._courier = courier
        self._arrivals = arrivals
        self._scan_at = 0.0
        self._woken = arrivals.wake["tb"]

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await survived(self.make_pass(asyncio.get_running_loop().time()))
            await asyncio.sleep(_COALESCE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(_REST_EVENT_FILES_S if self._replicas() else None):
                    await self._woken.wait()

    async def make_pass(self, now: float) -> None:
        """Look at everything once and send what there is."""
        self._woken.clear()
        due = now >= self._scan_at
        if due:
            self._scan_at = now + _SCAN_S
        for replica in self._replicas():
            await self._look(replica, scan=due)
        files = [file for replica in self._replicas() for file in replica.unfinished("tb") if not file.tail.unsaved]
        await self._courier.send(files)
        if any(replica.done or replica.unsaved for replica in self._replicas()):
            self._arrivals.wake["log"].set()

    async def _look(self, replica: Replica, *, scan: bool) -> None:
        """The end is looked for first, as with logs."""
        ended = not replica.all_found and all(other.log.tail.complete for other in self._gangs.siblings(replica))
        if scan or ended:
            replica.add_event_files(await asyncio.to_thread(replica.find_event_files))
        files = replica.unfinished("tb")
        await self._courier.look(files, check_paths=scan or ended)
        if ended:
            for file in files:
                file.tail.complete = True
            replica.all_found = True

    def _replicas(self) -> list[Replica]:
        return [replica for replica in self._gangs.replicas.values() if replica.manifest.tensorboard is not None]


async def survived(work: Awaitable[None]) -> None:
    """A disk that fails or is full ends a pass, not the agent: the files are still there for the next one."""
    try:
        await work
    except OSError as error:
        _log.error("a pass failed, the next one comes in %g s: %s", _FAILED_S, error)  # says all
        await asyncio.sleep(_FAILED_S)
