"""Following against a real server, over kills of server and consumer."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shared.bus import Bus, CaughtUp
from shared.ids import new_job_id
from shared.jobs import Recorded
from tests.support.jobs import event, submitted
from tests.support.nats import NatsServer


async def take(bus: Bus, count: int, after: int = 0) -> list[Recorded | CaughtUp]:
    items: list[Recorded | CaughtUp] = []
    following = bus.follow(after=after)
    async for item in following:
        items.append(item)
        if len(items) == count:
            break
    await following.aclose()  # type: ignore[attr-defined]
    return items


async def test_an_empty_stream_is_caught_up_at_once(bus: Bus) -> None:
    assert await take(bus, 1) == [CaughtUp(0)]


async def test_past_events_come_in_order_and_then_the_caught_up_mark(bus: Bus) -> None:
    sequences = [await bus.append(event(submitted(), new_job_id()), expected=0) for _ in range(5)]
    items = await take(bus, 6)
    assert [item.sequence for item in items if isinstance(item, Recorded)] == sequences
    assert items[-1] == CaughtUp(sequences[-1])


async def test_following_resumes_behind_a_sequence(bus: Bus) -> None:
    sequences = [await bus.append(event(submitted(), new_job_id()), expected=0) for _ in range(4)]
    items = await take(bus, 3, after=sequences[1])
    assert [item.sequence for item in items if isinstance(item, Recorded)] == sequences[2:]


async def test_no_event_is_lost_or_doubled_over_a_server_kill(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats")
    server.start()
    await server.wipe()
    bus = await server.bus()
    following = asyncio.create_task(take(bus, 41))
    written = [await bus.append(event(submitted(), new_job_id()), expected=0) for _ in range(20)]
    server.kill()
    server.start()
    written += [await bus.append(event(submitted(), new_job_id()), expected=0) for _ in range(20)]
    seen = [item.sequence for item in await following if isinstance(item, Recorded)]
    assert seen == written
    await bus.close()
    server.kill()


async def test_a_consumer_deleted_underneath_is_replaced(bus: Bus) -> None:
    following = asyncio.create_task(take(bus, 3))
    first = await bus.append(event(submitted(), new_job_id()), expected=0)
    while not (consumers := [c for c in await bus.js.consumers_info("JOBS") if not c.config.durable_name]):
        await asyncio.sleep(0.01)
    for consumer in consumers:
        await bus.js.delete_consumer("JOBS", consumer.name)
    second = await bus.append(event(submitted(), new_job_id()), expected=0)
    seen = [item.sequence for item in await following if isinstance(item, Recorded)]
    assert seen == [first, second]
