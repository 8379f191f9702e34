from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidInputError, UnavailableError
from shared.http.sse import STOPPING_KEY, EventStream, ServerSentEvent, resume_sequence


class Follower:
    """The client's side of one stream, as an ASGI server would see it."""

    def __init__(self, stream: EventStream, stopping: asyncio.Event | None = None) -> None:
        self.sent: list[bytes] = []
        self.status_headers: dict[str, str] = {}
        self.gone = asyncio.Event()
        self.news = asyncio.Condition()
        scope: dict[str, Any] = {"type": "http", "path": "/v1/x", "state": {"request_id": "r-1"}}
        if stopping is not None:
            scope[STOPPING_KEY] = stopping
        self.task = asyncio.create_task(stream(scope, self.receive, self.send))

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        async with self.news:
            if message["type"] == "http.response.start":
                self.status_headers = {key.decode(): value.decode() for key, value in message["headers"]}
            else:
                self.sent.append(message["body"])
            self.news.notify_all()

    async def until(self, wanted: Callable[[bytes], bool]) -> None:
        async with self.news:
            await self.news.wait_for(lambda: wanted(b"".join(self.sent)))

    @property
    def text(self) -> str:
        return b"".join(self.sent).decode()


async def events(*texts: str) -> AsyncIterator[ServerSentEvent]:
    for number, text in enumerate(texts, start=1):
        yield ServerSentEvent(text, id=str(number))


class Endless:
    """Gives one event, then waits until it is closed."""

    def __init__(self) -> None:
        self.closed = False

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        try:
            yield ServerSentEvent("first")
            await asyncio.Event().wait()
        finally:
            self.closed = True


async def test_events_come_in_order_and_the_stream_ends_with_the_iterator() -> None:
    follower = Follower(EventStream(events("a", "b")))
    await follower.task
    assert follower.text == "retry: 1000\n\nid: 1\ndata: a\n\nid: 2\ndata: b\n\n"
    assert follower.sent[-1] == b""


async def test_no_proxy_is_to_buffer_or_keep_a_stream() -> None:
    follower = Follower(EventStream(events()))
    await follower.task
    assert follower.status_headers["x-accel-buffering"] == "no"
    assert follower.status_headers["cache-control"] == "no-store"
    assert follower.status_headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in follower.status_headers


async def test_silence_is_filled_with_comments() -> None:
    follower = Follower(EventStream(Endless().events(), heartbeat_s=0.001))
    await follower.until(lambda sent: sent.count(b": still here\n\n") >= 3)
    follower.gone.set()
    await follower.task
    assert follower.text.count("data: first") == 1


async def test_a_stream_ends_and_closes_its_source_when_the_client_leaves() -> None:
    source = Endless()
    follower = Follower(EventStream(source.events()))
    await follower.until(lambda sent: b"first" in sent)
    follower.gone.set()
    await follower.task
    assert source.closed


async def test_a_stream_ends_and_closes_its_source_when_the_server_stops() -> None:
    source, stopping = Endless(), asyncio.Event()
    follower = Follower(EventStream(source.events()), stopping)
    await follower.until(lambda sent: b"first" in sent)
    stopping.set()
    await follower.task
    assert source.closed
    assert follower.sent[-1] == b""


async def test_a_stream_that_is_opened_while_the_server_stops_ends_at_once() -> None:
    stopping = asyncio.Event()
    stopping.set()
    await asyncio.wait_for(Follower(EventStream(Endless().events()), stopping).task, 5)


async def test_a_stream_that_is_cancelled_closes_its_source() -> None:
    source = Endless()
    follower = Follower(EventStream(source.events()))
    await follower.until(lambda sent: b"first" in sent)
    follower.task.cancel()
    await asyncio.gather(follower.task, return_exceptions=True)
    assert source.closed


@pytest.mark.parametrize(
    ("error", "code"), [(UnavailableError("logs are away"), "unavailable"), (RuntimeError("secret"), "internal")]
)
async def test_an_error_on_the_way_is_the_last_event(error: Exception, code: str) -> None:
    async def failing() -> AsyncIterator[ServerSentEvent]:
        yield ServerSentEvent("first")
        raise error

    with structlog.testing.capture_logs():
        follower = Follower(EventStream(failing()))
        await follower.task
    last = follower.text.strip().split("\n\n")[-1].split("\n")
    assert last[0] == "event: problem"
    problem = json.loads(last[1].removeprefix("data: "))
    assert (problem["code"], problem["request_id"]) == (code, "r-1")
    assert "secret" not in follower.text


async def test_an_iterator_that_goes_on_failing_ends_after_the_first_problem() -> None:
    class Broken:
        def __aiter__(self) -> AsyncIterator[ServerSentEvent]:
            return self

        async def __anext__(self) -> ServerSentEvent:
            raise UnavailableError("away")

    follower = Follower(EventStream(Broken()))
    await follower.task
    assert follower.text.count("event: problem") == 1


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_the_wire_up_to_its_line_ends(text: str) -> None:
    wire = ServerSentEvent(text, event="chunk", id="7").encode().decode()
    head, *data = wire.removesuffix("\n\n").split("\n")[1:]
    assert head == "event: chunk"
    assert "\n".join(line.removeprefix("data: ") for line in data) == text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b"])
def test_an_id_or_name_of_several_lines_is_a_programming_error(text: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        ServerSentEvent("x", id=text).encode()


@pytest.mark.parametrize(("header", "sequence"), [(None, 0), ("", 0), ("0", 0), ("17", 17), ("9" * 18, int("9" * 18))])
def test_the_last_event_id_is_the_sequence_to_resume_after(header: str | None, sequence: int) -> None:
    assert resume_sequence(header) == sequence


@pytest.mark.parametrize("header", ["x", "-1", "1.5", " 1", "٣", "9" * 19])
def test_an_id_that_the_stream_never_gave_is_a_violation(header: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        resume_sequence(header)
    assert raised.value.violations[0].pointer == "/header/last-event-id"
