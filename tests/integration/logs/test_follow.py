"""Following a job's logs: what is there and what comes, each byte once, to the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from shared import events as ev
from shared.clock import SystemClock
from shared.logs_wire import Chunk
from tests.support.logs import KeptLogs, log_of, publish, start_and_end, submit, tell


@dataclass
class Event:
    name: str
    id: str | None
    data: dict

    @property
    def source(self) -> tuple[int, str, int]:
        return self.data["attempt"], self.data["role"], self.data["index"]


async def follow(kept: KeptLogs, job: str, last_id: str | None = None, **query: object) -> AsyncIterator[Event]:
    headers = {"Last-Event-ID": last_id} if last_id else {}
    params = {name: str(value) for name, value in query.items()}
    path = f"/v1/logs/{job}/follow"
    async with kept.client().stream("GET", path, params=params, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if not line and "data" in fields:
                yield Event(fields["event"], fields.get("id"), json.loads(fields["data"]))
            if not line:
                fields = {}
            elif not line.startswith((":", "retry")):
                name, _, value = line.partition(": ")
                fields[name] = value


async def all_of(events: AsyncIterator[Event]) -> tuple[dict[tuple[int, str, int], str], Event]:
    """Text by source, and the last event."""
    texts: dict[tuple[int, str, int], str] = {}
    async for event in events:
        if event.name == "end":
            return texts, event
        texts[event.source] = texts.get(event.source, "") + event.data["text"]
    raise AssertionError("the stream ended without an end")


async def write(kept: KeptLogs, job: str, *texts: str, index: int = 0, end: bool = True, attempt: int = 1) -> None:
    at = 0
    for text in texts:
        await publish(kept.bus, Chunk(log_of(job, index, attempt), at, text.encode()))
        at += len(text.encode())
    if end:
        await publish(kept.bus, Chunk(log_of(job, index, attempt), at, end=at))


async def test_the_logs_of_an_ended_job_come_whole_and_then_the_end(kept: KeptLogs):
    job = await submit(kept.bus, replicas=2)
    await write(kept, job, "a\n" * 100_000)
    await write(kept, job, "b\n", index=1)
    await start_and_end(kept.bus, job, replicas=2)
    texts, end = await all_of(follow(kept, job))
    assert texts == {(1, "worker", 0): "a\n" * 100_000, (1, "worker", 1): "b\n"}
    assert end.data == {"attempt": 1, "state": "Succeeded", "complete": True}


async def test_a_follower_sees_what_is_written_while_it_follows(kept: KeptLogs):
    job = await submit(kept.bus)
    following = follow(kept, job)
    first = asyncio.ensure_future(anext(following))
    await write(kept, job, "one\n", end=False)
    event = await first
    assert (event.name, event.data["text"], event.data["offset"]) == ("chunk", "one\n", 0)
    await publish(kept.bus, Chunk(log_of(job), 4, b"two\n"), Chunk(log_of(job), 8, end=8))
    assert (await anext(following)).data["text"] == "two\n"
    await start_and_end(kept.bus, job)
    assert (await anext(following)).name == "end"


async def test_a_client_that_comes_back_misses_nothing_and_gets_nothing_twice(kept: KeptLogs):
    job = await submit(kept.bus, replicas=2)
    expected = {(1, "worker", index): f"{index} 训练\n" * 60_000 for index in (0, 1)}
    for index in (0, 1):
        await write(kept, job, expected[1, "worker", index], index=index)
    await start_and_end(kept.bus, job, replicas=2)
    texts, last_id, events = dict.fromkeys(expected, ""), None, 0
    while True:
        following = follow(kept, job, last_id)
        async for event in following:
            if event.name == "end":
                assert texts == expected
                assert events > 10
                return
            texts[event.source] += event.data["text"]
            last_id, events = event.id, events + 1
            if events % 3 == 0:
                break
        await following.aclose()


async def test_the_tail_comes_first_and_then_what_is_new(kept: KeptLogs):
    job = await submit(kept.bus)
    await write(kept, job, "".join(f"line {number}\n" for number in range(10_000)), end=False)
    await kept.until_sized(job, 98_890)
    following = follow(kept, job, tail=2)
    event = await anext(following)
    assert event.data["text"] == "line 9998\nline 9999\n"
    size = event.data["offset"] + len(event.data["text"])
    await publish(kept.bus, Chunk(log_of(job), size, b"new\n"), Chunk(log_of(job), size + 4, end=size + 4))
    assert (await anext(following)).data == event.data | {"offset": size, "text": "new\n"}
    await following.aclose()


async def test_only_the_chosen_replica_is_followed(kept: KeptLogs):
    job = await submit(kept.bus, replicas=2)
    await write(kept, job, "a\n")
    await write(kept, job, "b\n", index=1)
    await start_and_end(kept.bus, job, replicas=2)
    texts, _ = await all_of(follow(kept, job, role="worker", index=1))
    assert texts == {(1, "worker", 1): "b\n"}
    texts, _ = await all_of(follow(kept, job, role="master"))
    assert texts == {}


async def test_the_next_attempt_follows_the_one_that_failed(kept: KeptLogs):
    job = await submit(kept.bus)
    await write(kept, job, "first\n")
    following = asyncio.ensure_future(all_of(follow(kept, job)))
    first = asyncio.ensure_future(all_of(follow(kept, job, attempt=1)))
    started = ev.ReplicaChange(role="worker", index=0, state="started", at=SystemClock().now())
    await tell(kept.bus, job, ev.ReplicasChanged(changes=(started,)), ev.Started())
    await tell(kept.bus, job, ev.AttemptEnded(reason="failed"), ev.RetryDecided(retry=True, reason="again"))
    texts, end = await first
    assert (texts, end.data["complete"]) == ({(1, "worker", 0): "first\n"}, True)
    await tell(kept.bus, job, ev.Queued(), attempt=2)
    await write(kept, job, "second\n", attempt=2)
    await tell(kept.bus, job, ev.StopRequested(by="u-ada"), ev.Stopped(), attempt=2)
    texts, end = await following
    assert texts == {(1, "worker", 0): "first\n", (2, "worker", 0): "second\n"}
    assert end.data["state"] == "Stopped"


async def test_a_job_that_never_ran_ends_without_a_byte(kept: KeptLogs):
    job = await submit(kept.bus)
    await tell(kept.bus, job, ev.StopRequested(by="u-ada"), ev.Stopped())
    texts, end = await all_of(follow(kept, job))
    assert (texts, end.data["complete"]) == ({}, True)


async def test_text_that_is_cut_off_comes_when_it_is_whole_or_at_the_end(kept: KeptLogs):
    job = await submit(kept.bus)
    await write(kept, job, "100%\r", end=False)
    following = follow(kept, job)
    assert (await anext(following)).data["text"] == "100%"
    await publish(kept.bus, Chunk(log_of(job), 5, b"\xe8\xae"))
    assert (await anext(following)).data["text"] == "\n"
    await publish(kept.bus, Chunk(log_of(job), 7, end=7))
    assert (await anext(following)).data["text"] == "�"
    await following.aclose()


async def test_many_followers_see_the_same(kept: KeptLogs):
    job = await submit(kept.bus)
    followers = [asyncio.ensure_future(all_of(follow(kept, job))) for _ in range(10)]
    for number in range(20):
        await publish(kept.bus, Chunk(log_of(job), number * 10, b"0123456789"))
    await publish(kept.bus, Chunk(log_of(job), 200, end=200))
    await start_and_end(kept.bus, job)
    for texts, _ in await asyncio.gather(*followers):
        assert texts == {(1, "worker", 0): "0123456789" * 20}


async def test_a_wrong_request_is_refused_before_the_stream_begins(kept: KeptLogs):
    job = await submit(kept.bus)
    queries = {"tail=-1": "/query/tail", "attempt=0": "/query/attempt", "index=x": "/query/index"}
    for query, pointer in queries.items():
        answer = await kept.client().get(f"/v1/logs/{job}/follow?{query}")
        assert (answer.status_code, [error["pointer"] for error in answer.json()["errors"]]) == (422, [pointer])
    answer = await kept.client().get(f"/v1/logs/{job}/follow", headers={"Last-Event-ID": "nonsense!"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/header/last-event-id")
