"""List, then watch, over a collection that behaves as an API server may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from shared.clock import ManualClock
from shared.errors import UnavailableError
from shared.kubernetes.access import ApiError
from shared.kubernetes.documents import Json
from shared.kubernetes.watch import Changed, Gone, Listed, Told, Unreachable, Watching, follow

EXPIRED = ApiError(410, "Expired", "too old resource version")
CUT = UnavailableError("the connection was cut")
Answer = Mapping[str, Any] | Exception


def page(version: int, *names: str, more: str = "") -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": str(version), "continue": more},
        "items": [thing(n, version) for n in names],
    }


def thing(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def event(kind: str, name: str, version: int) -> dict[str, Any]:
    return {"type": kind, "object": thing(name, version)}


def error(code: int) -> dict[str, Any]:
    return {"type": "ERROR", "object": {"code": code, "reason": "Because", "message": f"code {code}"}}


class Server:
    """Answers lists and watches with what a test has laid out, and notes what it was asked."""

    def __init__(self, pages: Sequence[Answer], streams: Sequence[Sequence[Answer] | Exception]) -> None:
        self._pages, self._streams = list(pages), list(streams)
        self.asked: list[str] = []
        self.closed = 0

    async def page(self, after: str) -> Json:
        self.asked.append(f"list {after}".strip())
        answer = self._pages.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def changes(self, version: str) -> AsyncGenerator[Json, None]:
        self.asked.append(f"watch {version}")
        stream = self._streams.pop(0) if self._streams else None
        if isinstance(stream, Exception):
            raise stream
        return self._stream(stream)

    async def _stream(self, answers: Sequence[Answer] | None) -> AsyncGenerator[Json, None]:
        try:
            for answer in answers or ():
                if isinstance(answer, Exception):
                    raise answer
                yield answer
            if answers is None:
                await asyncio.Event().wait()
        finally:
            self.closed += 1


async def told(server: Server, count: int) -> list[Told[str]]:
    """What is told first, whatever the pauses."""
    clock, found = ManualClock(), []

    async def read() -> None:
        async with aclosing(follow(server, lambda each: str(each["metadata"]["name"]), clock)) as news:
            async for each in news:
                found.append(each)
                if len(found) == count:
                    return

    reading = asyncio.create_task(read())
    while not reading.done():
        await asyncio.sleep(0)
        await clock.advance(1)
    await reading
    return found


async def test_everything_is_listed_page_by_page_and_then_watched():
    events = [event("ADDED", "c", 6), event("MODIFIED", "a", 7), event("DELETED", "b", 8)]
    server = Server([page(5, "a", more="x"), page(5, "b")], [events])
    assert await told(server, 4) == [Listed(("a", "b")), Changed("c"), Changed("a"), Gone("b")]
    assert server.asked == ["list", "list x", "watch 5"]
    assert server.closed == 1


async def test_a_stream_that_ends_or_is_cut_goes_on_at_the_last_version():
    streams = [[event("ADDED", "b", 6)], [event("ADDED", "c", 7), CUT], [event("ADDED", "d", 8)]]
    server = Server([page(5, "a")], streams)
    assert await told(server, 4) == [Listed(("a",)), Changed("b"), Changed("c"), Changed("d")]
    assert server.asked == ["list", "watch 5", "watch 6", "watch 7"]


async def test_bookmarks_keep_the_version_young_and_are_no_change():
    server = Server([page(5)], [[event("BOOKMARK", "", 90)], [event("ADDED", "a", 91)]])
    assert await told(server, 2) == [Listed(()), Changed("a")]
    assert server.asked == ["list", "watch 5", "watch 90"]


@pytest.mark.parametrize("streams", [[[error(410)]], [EXPIRED]])
async def test_a_version_that_is_forgotten_means_listing_anew(streams: list[Any]):
    server = Server([page(5, "a"), page(50, "b")], [*streams, [event("ADDED", "c", 51)]])
    assert await told(server, 3) == [Listed(("a",)), Listed(("b",)), Changed("c")]
    assert server.asked == ["list", "watch 5", "list", "watch 50"]


async def test_a_list_that_expires_between_two_pages_begins_anew():
    server = Server([page(5, "a", more="x"), EXPIRED, page(9, "b")], [])
    assert await told(server, 1) == [Listed(("b",))]
    assert server.asked == ["list", "list x", "list"]


async def test_a_server_that_stays_away_is_told_once_and_so_is_its_return():
    server = Server([page(5, "a")], [CUT, CUT, CUT, CUT, [event("ADDED", "b", 6)]])
    assert await told(server, 4) == [Listed(("a",)), Unreachable(CUT.message), Watching(), Changed("b")]
    assert server.asked == ["list", *["watch 5"] * 5]


async def test_a_refusal_is_told_with_its_reason():
    denied = ApiError(403, "Forbidden", "pods is forbidden")
    server = Server([denied, denied, page(5)], [])
    assert await told(server, 2) == [
        Unreachable("Kubernetes answered 403 Forbidden: pods is forbidden"),
        Listed(()),
    ]


async def test_another_error_within_the_stream_means_listing_anew():
    server = Server([page(5), page(6, "a")], [[error(500)]])
    assert await told(server, 2) == [Listed(()), Listed(("a",))]


async def test_streams_that_end_at_once_are_not_asked_for_without_a_pause():
    server, clock = Server([page(5)], [[]] * 50), ManualClock()
    news = follow(server, str, clock)
    assert await anext(news) == Listed(())
    waiting = asyncio.ensure_future(anext(news))
    for _ in range(10):
        await asyncio.sleep(0)
    assert server.asked == ["list", "watch 5"]
    await clock.advance(0.5)
    await asyncio.sleep(0)
    assert server.asked == ["list", "watch 5", "watch 5"]
    waiting.cancel()
    await asyncio.wait([waiting])
    await news.aclose()


async def test_a_server_that_forgets_what_it_has_just_listed_is_not_asked_without_a_pause():
    server, clock = Server([page(5)] * 50, [EXPIRED] * 50), ManualClock()
    news = follow(server, str, clock)
    assert await anext(news) == Listed(())
    waiting = asyncio.ensure_future(anext(news))
    for _ in range(10):
        await asyncio.sleep(0)
    assert server.asked == ["list", "watch 5"]
    await clock.advance(0.5)
    assert await waiting == Listed(())
    await news.aclose()
