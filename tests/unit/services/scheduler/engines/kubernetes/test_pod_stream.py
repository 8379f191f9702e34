"""What is told of pods while gangs are left out of the watch, over a server that behaves as an API server may."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.engines.kubernetes.making import Making
from services.scheduler.engines.kubernetes.pod_stream import PodStream
from shared.clock import ManualClock
from shared.ids import GangId
from shared.kubernetes.access import ApiError
from shared.kubernetes.names import GANG_LABEL
from shared.kubernetes.watch import ApiCollection, Changed, Listed, follow

A, B, C = (GangId(f"tj-{name}-1") for name in "abc")
SETTLE_TURNS = 40


class Stream:
    """Events of one watch; ends when it is cut, or when its server drops it."""

    def __init__(self, server: Server, version: int, left_out: frozenset[str]) -> None:
        self._server, self._version, self._left_out = server, version, left_out
        self.is_cut = self.is_dropped = False

    def cut(self) -> None:
        self.is_cut = True
        self._server.ring()

    async def aclose(self) -> None:
        self._server.streams.discard(self)

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        sent = 0
        while not self.is_cut and not self.is_dropped and sent < self._server.most:
            due = next((each for each in self._server.events if version_of(each) > self._version), None)
            if due is None:
                await self._server.rung.wait()
                continue
            self._version = version_of(due)
            if due["object"]["metadata"]["labels"].get(GANG_LABEL) not in self._left_out:
                sent += 1
                yield due
                await asyncio.sleep(0)


class Server:
    """Every event since the beginning, of which it may forget the older ones."""

    def __init__(self) -> None:
        self.version = 0
        self.forgotten = 0
        self.most = sys.maxsize
        """How many events a stream sends before it breaks."""
        self.events: list[dict[str, Any]] = []
        self.streams: set[Stream] = set()
        self.watched: list[tuple[str, str]] = []
        self.rung = asyncio.Event()

    def ring(self) -> None:
        rung, self.rung = self.rung, asyncio.Event()
        rung.set()

    def happens(self, gang: str, kind: str = "MODIFIED") -> int:
        self.version += 1
        metadata = {"name": gang, "labels": {GANG_LABEL: gang}, "resourceVersion": str(self.version)}
        self.events.append({"type": kind, "object": {"metadata": metadata}})
        self.ring()
        return self.version

    def drop(self) -> None:
        for stream in self.streams:
            stream.is_dropped = True
        self.ring()

    async def page(self, after: str) -> dict[str, Any]:
        assert not after
        return {"metadata": {"resourceVersion": str(self.version)}, "items": []}

    async def watch(self, version: str, *, labels: str = "") -> Stream:
        await asyncio.sleep(0)
        self.watched.append((version, labels))
        if int(version) < self.forgotten:
            raise ApiError(410, "Expired", "too old resource version")
        left_out = labels.removeprefix(f"{GANG_LABEL} notin (").removesuffix(")").split(",") if labels else ()
        stream = Stream(self, int(version), frozenset(left_out))
        self.streams.add(stream)
        return stream


def version_of(event: dict[str, Any]) -> int:
    return int(event["object"]["metadata"]["resourceVersion"])


class Desk:
    """A stream over such a server, and all that it has told: versions, and -1 for each list."""

    def __init__(self) -> None:
        self.server = Server()
        self.making = Making(large=1)
        self.told: list[int] = []
        self.announced = 0
        self._held: dict[GangId, AbstractContextManager[None]] = {}
        self._stream = PodStream(cast("ApiCollection", self.server), self.making, self._announce)
        self._clock = ManualClock()
        self._task = asyncio.create_task(self._follow())

    def _announce(self) -> None:
        self.announced += 1

    async def _follow(self) -> None:
        def read(pod: Any) -> int:
            return int(pod["metadata"]["resourceVersion"])

        async with aclosing(follow(self._stream, read, self._clock)) as news:
            async for each in news:
                match each:
                    case Listed():
                        self.told.append(-1)
                    case Changed(version):
                        self.told.append(version)

    def begin(self, gang: GangId) -> None:
        if gang not in self._held:
            self._held[gang] = self.making.of(gang, 1)
            self._held[gang].__enter__()

    def end(self, gang: GangId) -> None:
        if gang in self._held:
            self._held.pop(gang).__exit__(None, None, None)

    async def settle(self) -> None:
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)
        await self._clock.advance(30)
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def desk():
    made = Desk()
    await made.settle()
    assert made.told == [-1]
    yield made
    await made.close()


async def test_pods_of_a_gang_that_is_being_made_are_told_when_it_is_made(desk: Desk):
    desk.begin(A)
    await desk.settle()
    of_a, of_b = desk.server.happens(A), desk.server.happens(B)
    await desk.settle()
    assert desk.told == [-1, of_b]
    desk.end(A)
    await desk.settle()
    assert desk.told == [-1, of_b, of_a]


async def test_each_change_costs_one_watch_from_what_is_missing(desk: Desk):
    first = desk.server.happens(B)
    await desk.settle()
    desk.begin(A)
    await desk.settle()
    desk.server.happens(B)
    await desk.settle()
    desk.end(A)
    await desk.settle()
    assert desk.server.watched == [("0", ""), (str(first), f"{GANG_LABEL} notin ({A})"), (str(first), "")]


async def test_a_bookmark_ends_the_time_in_which_old_events_are_looked_at_again(desk: Desk):
    desk.begin(A)
    await desk.settle()
    desk.server.happens(A)
    desk.end(A)
    await desk.settle()
    bookmark = desk.server.happens("", "BOOKMARK")
    await desk.settle()
    desk.server.drop()
    await desk.settle()
    assert desk.server.watched[-1] == (str(bookmark), "")


@pytest.mark.parametrize("most", [5, 1])
async def test_a_stream_that_breaks_again_and_again_on_the_way_is_further_on_each_time(desk: Desk, most: int):
    """One event is enough, though it was told before: it shows that the stream is alive."""
    desk.begin(A)
    await desk.settle()
    for _ in range(20):
        desk.server.happens(B)
    of_a = desk.server.happens(A)
    await desk.settle()
    desk.server.most = most
    desk.end(A)
    for _ in range(12):
        await desk.settle()
    assert desk.told[-1] == of_a


async def test_what_the_server_has_forgotten_meanwhile_is_listed(desk: Desk):
    desk.begin(A)
    await desk.settle()
    desk.server.happens(A)
    of_b = desk.server.happens(B)
    await desk.settle()
    desk.server.forgotten = desk.server.version
    desk.end(A)
    await desk.settle()
    later = desk.server.happens(A)
    await desk.settle()
    assert desk.told == [-1, of_b, -1, later]
    assert desk.announced == 2


async def test_a_gang_that_is_made_before_the_watch_has_left_it_out_is_not_forgotten(desk: Desk):
    desk.begin(A)
    of_a = desk.server.happens(A)
    desk.end(A)
    await desk.settle()
    assert desk.told == [-1, of_a]


STEPS = {
    "a happens": lambda desk: desk.server.happens(A),
    "b happens": lambda desk: desk.server.happens(B),
    "c happens": lambda desk: desk.server.happens(C),
    "a bookmark": lambda desk: desk.server.happens("", "BOOKMARK"),
    "a begins": lambda desk: desk.begin(A),
    "a ends": lambda desk: desk.end(A),
    "b begins": lambda desk: desk.begin(B),
    "b ends": lambda desk: desk.end(B),
    "the stream breaks": lambda desk: desk.server.drop(),
}


@settings(max_examples=500)
@given(steps=st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 3)), min_size=5, max_size=60))
def test_whatever_happens_all_is_told_once_and_in_order(steps: list[tuple[str, int]]):
    asyncio.run(_all_is_told(steps))


async def _all_is_told(steps: list[tuple[str, int]]) -> None:
    desk = Desk()
    await desk.settle()
    for name, turns in steps:
        cast("Callable[[Desk], object]", STEPS[name])(desk)
        for _ in range(turns):
            await asyncio.sleep(0)
    desk.end(A)
    desk.end(B)
    for _ in range(3):
        await desk.settle()
    await desk.close()
    happened = [each for each in desk.server.events if each["type"] != "BOOKMARK"]
    assert sorted(desk.told[1:]) == [version_of(each) for each in happened]
    for gang in (A, B, C):
        own = {version_of(each) for each in happened if each["object"]["metadata"]["name"] == gang}
        assert [version for version in desk.told if version in own] == sorted(own)
