"""Looking at files and sending their chunks, in fair turns; the part that both lanes share.

In each turn every file that has something to send gives one chunk, a few files at a time so that memory stays small. A
file of many gigabytes takes its turn like the others. Turns end when nothing more may be sent: all is sent, a file's
window is full, or so much is on its way over all files that announcements must come first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from services.agent.domain.tail import Look, Read
from services.agent.replica import TailedFile
from shared.errors import UnavailableError
from shared.logs_wire import Chunk

OUTSTANDING_MAX_BYTES: Final = 32 * 1024 * 1024
_FILES_AT_A_TIME: Final = 16

Result = TypeVar("Result")


class Io(Protocol):
    """How blocking work on files is done: at once, or in a thread."""

    def __call__(self, work: Callable[[], Result], /) -> Awaitable[Result]:
        """The result of the work."""
        ...


class Publisher(Protocol):
    """Where chunks go."""

    @property
    def connected(self) -> bool:
        """Whether publishing makes sense."""
        ...

    async def publish(self, chunk: Chunk, file: int) -> None:
        """Send a chunk; raises UnavailableError."""
        ...


@dataclass(frozen=True, slots=True)
class Times:
    """The clocks of the agent, as functions."""

    monotonic_s: Callable[[], float]
    unix_ms: Callable[[], int]


class Courier:
    """Looks and sends for one lane."""

    def __init__(self, publisher: Publisher, times: Times, io: Io) -> None:
        self._publisher = publisher
        self._times = times
        self._io = io
        self._turn = 0

    async def look(self, files: Sequence[TailedFile], *, check_paths: bool) -> None:
        """Find out how far the files have grown, which have begun anew, and whether their paths name other files."""
        looks = await self._io(lambda: [file.source.look(check_path=check_paths) for file in files])
        for file, look in zip(files, looks, strict=True):
            if look is not None and file.tail.looked(look, self._times.unix_ms()):
                await self._look_at_next_generation(file)

    async def send(self, files: Sequence[TailedFile]) -> None:
        """Send what the files have, as far as their windows and the connection allow."""
        while self._publisher.connected and await self._take_turn(files):  # noqa: ASYNC110  # no event to wait for
            await asyncio.sleep(0)

    async def _look_at_next_generation(self, file: TailedFile) -> None:
        def reopened() -> Look | None:
            file.source.close()
            return file.source.look()

        look = await self._io(reopened)
        if look is not None:
            file.tail.looked(look, self._times.unix_ms())

    async def _take_turn(self, files: Sequence[TailedFile]) -> bool:
        """One chunk of each file; false where nothing was sent."""
        self._turn += 1
        first = self._turn % len(files) if files else 0
        in_turn = [*files[first:], *files[:first]]
        any_sent = False
        for at in range(0, len(in_turn), _FILES_AT_A_TIME):
            if sum(file.tail.offsets.outstanding_bytes for file in files) >= OUTSTANDING_MAX_BYTES:
                return False
            any_sent = await self._send_one_each(in_turn[at : at + _FILES_AT_A_TIME]) or any_sent
        return any_sent

    async def _send_one_each(self, files: Sequence[TailedFile]) -> bool:
        now = self._times.monotonic_s()
        plans = [(file, read) for file in files if (read := file.tail.plan(now)) is not None]
        if not plans:
            return False
        bodies = await self._io(lambda: [_read(file, read) for file, read in plans])
        sent = 0
        for (file, read), (data, check) in zip(plans, bodies, strict=True):
            sent += await self._send(file, read, data, check)
        return sent > 0

    async def _send(self, file: TailedFile, read: Read, data: bytes, check: bytes) -> bool:
        chunk = file.tail.pack(read, data, check, self._times.monotonic_s())
        if chunk is None:
            return False
        try:
            await self._publisher.publish(chunk, file.number)
        except UnavailableError:
            file.tail.offsets.disconnected()
            return False
        return True


def _read(file: TailedFile, read: Read) -> tuple[bytes, bytes]:
    data = file.source.read(read.offset, read.length)
    return data, file.source.read(read.check_offset, len(read.check))


async def at_once(work: Callable[[], Result], /) -> Result:
    """Do quick work where it stands."""
    return work()
