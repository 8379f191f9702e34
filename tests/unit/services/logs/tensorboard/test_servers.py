"""Starting and ending boards, with a small server in TensorBoard's place."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.logs.tensorboard.boards import BoardSpec
from services.logs.tensorboard.sandbox import SOCKET, Bind, Shut
from services.logs.tensorboard.servers import Boards, Limits, Shown
from shared.clock import ManualClock
from shared.errors import TooManyRequestsError, UnavailableError

SERVER = """
import http.server, socketserver, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ",".join(sorted(os.listdir("logdir"))).encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_HEAD(self):
        self.send_response(200); self.end_headers()
    def address_string(self): return ""
    def log_message(self, *given): pass
socketserver.ThreadingUnixStreamServer("socket", Handler).serve_forever()
"""


class Stub(Shut):
    """Starts the small server; or one that says something and ends."""

    program = SERVER

    def command(self, work: Path, binds: Iterable[Bind], prefix: str) -> list[str]:
        assert (work / SOCKET).name == "socket"
        return [sys.executable, "-I", "-S", "-c", self.program]


class Broken(Stub):
    program = "import sys; sys.exit('no such plugin')"


def spec(number: int) -> BoardSpec:
    return BoardSpec((f"tj-{number}",))


NOTHING = Shown((), {})


@asynccontextmanager
async def boards(
    directory: Path, clock: ManualClock, *, limit: int = 2, shut: Shut | None = None
) -> AsyncIterator[Boards]:
    found = Boards(directory, lambda: shut or Stub(), Limits(limit, idle_s=600), clock)
    try:
        yield found
    finally:
        await found.close()
        assert list(directory.glob("*")) == []


async def test_the_same_board_is_started_once_and_shows_links_that_come_later(tmp_path: Path):
    async with boards(tmp_path, ManualClock()) as all_boards:
        first, second = await asyncio.gather(
            all_boards.open(spec(1), Shown((), {"attempt-1": "/a"})), all_boards.open(spec(1), NOTHING)
        )
        assert first is second
        first.show({"attempt-1": "/a", "job/attempt-2": "/b"})
        answer = await first.client.get("http://board/")
        assert answer.text == "attempt-1,job"
        assert all_boards.running == [first]


async def test_a_board_that_nobody_looks_at_makes_room_for_another(tmp_path: Path):
    clock = ManualClock()
    async with boards(tmp_path, clock) as all_boards:
        await all_boards.open(spec(1), NOTHING)
        await clock.advance(30)
        await all_boards.open(spec(2), NOTHING)
        with pytest.raises(TooManyRequestsError, match="2 TensorBoards run already"):
            await all_boards.open(spec(3), NOTHING)
        await clock.advance(40)
        await all_boards.open(spec(3), NOTHING)
        assert {board.spec for board in all_boards.running} == {spec(2), spec(3)}


async def test_a_board_is_stopped_when_it_was_idle_for_long_and_not_before(tmp_path: Path):
    clock = ManualClock()
    async with boards(tmp_path, clock) as all_boards:
        looking = asyncio.create_task(all_boards.run())
        board = await all_boards.open(spec(1), NOTHING)
        await clock.advance(595)
        assert all_boards.find(board.spec.id) is board
        await clock.advance(595)
        assert board.running
        await clock.advance(15)
        async with asyncio.timeout(45):
            while board.running or any(tmp_path.iterdir()):
                await asyncio.sleep(0.01)
        assert all_boards.find(board.spec.id) is None
        looking.cancel()


async def test_a_board_that_ended_by_itself_is_started_again(tmp_path: Path):
    async with boards(tmp_path, ManualClock()) as all_boards:
        first = await all_boards.open(spec(1), NOTHING)
        process = first._process
        assert process is not None
        process.kill()
        await process.wait()
        second = await all_boards.open(spec(1), NOTHING)
        assert second is not first
        assert (await second.client.get("http://board/")).status_code == 200


async def test_a_board_that_cannot_start_says_why_and_is_forgotten(tmp_path: Path):
    async with boards(tmp_path, ManualClock(), shut=Broken()) as all_boards:
        with pytest.raises(UnavailableError, match="no such plugin"):
            await all_boards.open(spec(1), NOTHING)
        assert all_boards.running == []


async def test_a_long_path_is_no_hindrance_for_the_socket(tmp_path: Path):
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    async with boards(deep, ManualClock()) as all_boards:
        board = await all_boards.open(spec(1), NOTHING)
        assert (await board.client.get("http://board/")).status_code == 200


async def test_what_a_crash_left_is_removed_at_a_start(tmp_path: Path):
    (tmp_path / "boards" / "tb-old").mkdir(parents=True)
    async with boards(tmp_path / "boards", ManualClock()):
        assert not (tmp_path / "boards" / "tb-old").exists()
