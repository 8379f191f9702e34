"""Server-sent events: how a client follows something that goes on.

`EventStream` sends what an async iterator yields. While nothing comes it sends a comment every 15 seconds, so that
proxies keep the connection and a dead client is noticed. It ends when the iterator ends, when the client leaves, or
when the server stops: the runner puts its stop event into the scope, and every stream waits on it, so that a shutdown
never hangs on a follower. A client that comes back sends the last id it saw and misses nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import structlog
from fastapi import Header
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shared.errors import InvalidInputError, TrainmasterError, Violation, problem_of
from shared.http import problems

STOPPING_KEY: Final = "trainmaster.stopping"
HEARTBEAT_S: Final = 15.0
RETRY_MS: Final = 1000
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_HEARTBEAT: Final = b": still here\n\n"

LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=512)]


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `data` may have several lines, `id` is what a client sends back to resume after it."""

    data: str
    event: str | None = None
    id: str | None = None

    def encode(self) -> bytes:
        """The bytes on the wire."""
        lines = [f"id: {_one_line(self.id)}"] if self.id is not None else []
        lines += [f"event: {_one_line(self.event)}"] if self.event is not None else []
        lines += [f"data: {line}" for line in self.data.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        return ("\n".join(lines) + "\n\n").encode()


class EventStream(Response):
    """The response that follows an iterator of events; an error in it becomes a last event named `problem`."""

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncIterator[ServerSentEvent], status_code: int = 200, *, heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        super().__init__(status_code=status_code, headers=_HEADERS)  # FastAPI documents routes by that default
        del self.headers["content-length"]
        self._events = events
        self._heartbeat_s = heartbeat_s
        self._failed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await _send_chunk(send, f"retry: {RETRY_MS}\n\n".encode())
        endings = [asyncio.create_task(_disconnected(receive))]
        stopping: asyncio.Event | None = scope.get(STOPPING_KEY)
        if stopping is not None:
            endings.append(asyncio.create_task(_set(stopping)))
        try:
            await self._pump(scope, send, endings)
        finally:
            await _cancel(endings)
        if not endings[0].done() or endings[0].cancelled():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, scope: Scope, send: Send, endings: list[asyncio.Task[None]]) -> None:
        upcoming: asyncio.Task[bytes | None] = asyncio.create_task(self._next(scope))
        try:
            while True:
                waiting: list[asyncio.Task[Any]] = [upcoming, *endings]
                done, _ = await asyncio.wait(waiting, timeout=self._heartbeat_s, return_when=asyncio.FIRST_COMPLETED)
                if done & set(endings):
                    return
                if not done:
                    await _send_chunk(send, _HEARTBEAT)
                    continue
                chunk = upcoming.result()
                if chunk is None:
                    return
                await _send_chunk(send, chunk)
                upcoming = asyncio.create_task(self._next(scope))
        finally:
            await _cancel([upcoming])
            await self._close()

    async def _next(self, scope: Scope) -> bytes | None:
        """The next event's bytes, None at the end."""
        if self._failed:
            return None
        try:
            return (await anext(self._events)).encode()
        except StopAsyncIteration:
            return None
        except TrainmasterError as error:
            problem = problems.document_of(problem_of(error), problems.request_id_of(scope))
        except Exception:  # noqa: BLE001  # whatever an iterator raises ends its stream and goes to the log
            structlog.get_logger().exception("stream_failed", path=scope["path"])
            problem = problems.document_of(problems.internal_problem(), problems.request_id_of(scope))
        self._failed = True
        return ServerSentEvent(json.dumps(problem, ensure_ascii=False), event="problem").encode()

    async def _close(self) -> None:
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()


def resume_sequence(last_event_id: str | None) -> int:
    """Sequence after which a stream of events resumes: 0 without the header, an error where it is no number."""
    if last_event_id is None or last_event_id == "":
        return 0
    if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) <= 18):
        message = f"{last_event_id[:40]!r} is no event id of this stream; send back an id that it gave"
        raise InvalidInputError((Violation("/header/last-event-id", "bad-event-id", message),))
    return int(last_event_id)


def _one_line(text: str) -> str:
    if "\n" in text or "\r" in text or "\0" in text:
        raise ValueError(f"an event's id and name are one line each, {text[:40]!r} is not")
    return text


async def _send_chunk(send: Send, chunk: bytes) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _set(event: asyncio.Event) -> None:
    await event.wait()


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
