"""The TensorBoard processes: started when they are asked for, ended when nobody asks any more, never more than so many.

A board's directory has `logdir` with a link a run, which is brought up to date while TensorBoard runs, the socket, and
what TensorBoard had to say (`log`). Its processes end with ours; directories that a crash left are removed at a start.
"""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import httpx
import structlog

from services.logs.tensorboard.boards import BoardSpec
from services.logs.tensorboard.sandbox import LOGDIR, SOCKET, Bind, Shut
from shared.clock import Clock
from shared.errors import TooManyRequestsError, TrainmasterError, UnavailableError

_START_LIMIT_S: Final = 60.0
_TRY_AGAIN_S: Final = 0.05
_END_LIMIT_S: Final = 5.0
_ANSWER_LIMIT_S: Final = 120.0
_LOOK_AGAIN_S: Final = 10.0
_SPARE_S: Final = 60.0
"""A board that was not used for so long makes room for another one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many boards may run at once, and how long one runs that nobody looks at."""

    boards: int
    idle_s: float


@dataclass(frozen=True, slots=True)
class Shown:
    """What a board shows: directories of this machine, and links by the names of runs."""

    binds: tuple[Bind, ...]
    links: Mapping[str, str]


class Board:
    """One TensorBoard process."""

    def __init__(self, spec: BoardSpec, work: Path, now: datetime) -> None:
        self.spec = spec
        self.last_used = now
        self._work = work
        self._process: asyncio.subprocess.Process | None = None
        self._directory_fd = -1
        self.client: httpx.AsyncClient

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self, shut: Shut, shown: Shown) -> None:
        """Start, and return when it answers; raises UnavailableError."""
        await asyncio.to_thread(self._lay, shown.links)
        # A path of a Unix socket is at most 108 bytes, so the directory is reached by its descriptor.
        self._directory_fd = os.open(self._work, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        transport = httpx.AsyncHTTPTransport(uds=f"/proc/self/fd/{self._directory_fd}/{SOCKET}")
        self.client = httpx.AsyncClient(transport=transport, timeout=_ANSWER_LIMIT_S, trust_env=False)
        with (self._work / "log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *shut.command(self._work, shown.binds, self.spec.prefix),
                cwd=self._work,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(self._work), "TMPDIR": str(self._work)},
                start_new_session=True,
            )
        await self._answers()

    def show(self, links: Mapping[str, str]) -> None:
        """Bring the links up to date; TensorBoard looks again by itself."""
        logdir = self._work / LOGDIR
        for name, target in links.items():
            link = logdir / name
            if not link.is_symlink():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(target)

    async def end(self) -> None:
        """End the process with all that it started, and remove its directory."""
        if self._process is not None:
            await _end(self._process)
        if self._directory_fd >= 0:
            await self.client.aclose()
            os.close(self._directory_fd)
            self._directory_fd = -1
        await asyncio.to_thread(shutil.rmtree, self._work, ignore_errors=True)

    def _lay(self, links: Mapping[str, str]) -> None:
        shutil.rmtree(self._work, ignore_errors=True)
        (self._work / LOGDIR).mkdir(parents=True, mode=0o700)
        (self._work / "hosts").write_text("127.0.0.1 localhost\n", "ascii")
        self.show(links)

    async def _answers(self) -> None:
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                while not await self._connects():  # noqa: ASYNC110  # another process has no event for us
                    await asyncio.sleep(_TRY_AGAIN_S)
        except TimeoutError:
            raise UnavailableError(f"TensorBoard did not answer within {_START_LIMIT_S:g} s: {self._said()}") from None

    async def _connects(self) -> bool:
        if not self.running:
            raise UnavailableError(f"TensorBoard could not be started: {self._said()}")
        try:
            await self.client.head(f"http://tensorboard{self.spec.prefix}/")
        except httpx.TransportError:
            return False
        return True

    def _said(self) -> str:
        with suppress(OSError):
            lines = (self._work / "log").read_text("utf-8", "replace").strip().splitlines()
            return lines[-1][:400] if lines else "it said nothing"
        return "it said nothing"


class Boards:
    """All boards of this service."""

    def __init__(self, directory: Path, find_sandbox: Callable[[], Shut], limits: Limits, clock: Clock) -> None:
        self._directory = directory
        self._shut = functools.cache(find_sandbox)
        self._limits = limits
        self._clock = clock
        self._boards: dict[str, Board] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._log = structlog.get_logger(service="logs")
        shutil.rmtree(directory, ignore_errors=True)

    @property
    def sandboxed(self) -> bool:
        """Whether boards see only what they are shown; the first answer takes a moment."""
        return self._shut().sandboxed

    @property
    def running(self) -> list[Board]:
        """The boards that run."""
        return [board for board in self._boards.values() if board.running]

    def find(self, board_id: str) -> Board | None:
        """The board, where it runs and answers; it counts as used now."""
        board = self._boards.get(board_id)
        if board is None or not board.running or board_id in self._starting:
            return None
        board.last_used = self._clock.now()
        return board

    async def open(self, spec: BoardSpec, shown: Shown) -> Board:
        """The board, started where it does not run; raises UnavailableError, TooManyRequestsError."""
        board = self._boards.get(spec.id)
        starting = self._starting.get(spec.id)
        if board is None or not (board.running or starting):
            board, starting = await self._begin(spec, shown)
        if starting is not None:
            await asyncio.shield(starting)
        board.last_used = self._clock.now()
        return board

    async def stop(self, board_id: str) -> bool:
        """End a board; whether there was one."""
        board = self._boards.pop(board_id, None)
        if board is None:
            return False
        await board.end()
        self._log.info("tensorboard_stopped", board=board_id, jobs=board.spec.jobs)
        return True

    async def run(self) -> None:
        """End boards that nobody looks at, until cancelled."""
        try:
            while True:
                await self._clock.sleep(_LOOK_AGAIN_S)
                for board in self._idle(self._limits.idle_s):
                    await self.stop(board.spec.id)
        finally:
            await self.close()

    async def close(self) -> None:
        """End all of them."""
        for board_id in list(self._boards):
            await self.stop(board_id)

    async def _begin(self, spec: BoardSpec, shown: Shown) -> tuple[Board, asyncio.Task[None]]:
        await self._make_room(spec.id)
        board = self._boards[spec.id] = Board(spec, self._directory / spec.id, self._clock.now())
        task = self._starting[spec.id] = asyncio.create_task(self._start(board, shown))
        return board, task

    async def _start(self, board: Board, shown: Shown) -> None:
        try:
            await board.start(await asyncio.to_thread(self._shut), shown)
            self._log.info("tensorboard_started", board=board.spec.id, jobs=board.spec.jobs)
        except (OSError, TrainmasterError) as error:
            await self.stop(board.spec.id)
            raise error if isinstance(error, TrainmasterError) else UnavailableError(str(error)) from error
        finally:
            del self._starting[board.spec.id]

    async def _make_room(self, board_id: str) -> None:
        """End what ended by itself, and the board that was not used for longest where there are too many."""
        for board in [each for each in self._boards.values() if each.spec.id not in self._starting]:
            if not board.running:
                await self.stop(board.spec.id)
        if board_id in self._boards or len(self._boards) < self._limits.boards:
            return
        spare = self._idle(_SPARE_S)
        if not spare:
            raise TooManyRequestsError(
                f"{len(self._boards)} TensorBoards run already, and all of them are being looked at; "
                f"one that is not used for {_SPARE_S:g} s makes room",
                retry_after_s=int(_SPARE_S),
            )
        await self.stop(spare[0].spec.id)

    def _idle(self, seconds: float) -> list[Board]:
        """Boards that were not used for so long, the longest first."""
        now = self._clock.now()
        idle = [board for board in self._boards.values() if (now - board.last_used).total_seconds() >= seconds]
        idle = [board for board in idle if board.spec.id not in self._starting]
        return sorted(idle, key=lambda board: board.last_used)


async def _end(process: asyncio.subprocess.Process) -> None:
    for number, limit_s in ((signal.SIGTERM, _END_LIMIT_S), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await process.wait()
                return
