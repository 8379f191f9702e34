"""A feed that is closed leaves everything that it was sent and has not given out to the next one, at once."""

from __future__ import annotations

import asyncio

import pytest

from shared.bus import Bus
from shared.bus import feed as feed_module
from shared.bus.feed import Feed
from shared.bus.streams import logs_partition
from tests.support.services import eventually

FEED = logs_partition(3)


async def test_what_a_closed_feed_did_not_give_out_comes_to_the_next_at_once(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feed_module, "BATCH_MESSAGES", 2)
    first, second = Feed(bus, FEED), Feed(bus, FEED)
    await first.open()
    for number in range(6):
        await bus.js.publish("tm.log.3.tj-a.1.worker.0", b"%d" % number)
    given = await first.batch()
    for message in given:
        await message.ack()

    async def more_came() -> bool | None:
        return True if first._waiting else None

    await eventually(more_came)
    await first.close()
    await second.open()
    left = {b"%d" % number for number in range(6)} - {message.data for message in given}
    got: set[bytes] = set()
    async with asyncio.timeout(45):
        while got != left:
            for message in await second.batch():
                got.add(message.data)
                await message.ack()
    await second.close()


async def test_messages_that_come_before_their_request_is_written_out_are_counted(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(feed_module, "BATCH_MESSAGES", 2)
    feed = Feed(bus, FEED)
    await feed.open()
    publish = bus.client.publish

    async def slow_publish(subject: str, payload: bytes = b"", **rest: object) -> None:
        await publish(subject, payload, **rest)
        if ".MSG.NEXT." in subject:
            await bus.client.flush()
            # As long as a socket takes that is full; what is asked for comes meanwhile, where it is there.
            await asyncio.sleep(0.1)

    monkeypatch.setattr(bus.client, "publish", slow_publish)
    for _round in range(3):
        for number in range(2):
            await bus.js.publish("tm.log.3.tj-a.1.worker.0", b"%d" % number)
        taken: list[bytes] = []
        async with asyncio.timeout(45):
            while len(taken) < 2:
                for message in await feed.batch():
                    taken.append(message.data)
                    await message.ack()
        assert taken == [b"0", b"1"]
    await feed.close()


async def test_what_comes_meanwhile_is_had_without_waiting_for_more(bus: Bus):
    feed = Feed(bus, FEED)
    await feed.open()
    await bus.js.publish("tm.log.3.tj-a.1.worker.0", b"first")
    got = await feed.batch()
    assert await feed.more() == []
    for number in range(3):
        await bus.js.publish("tm.log.3.tj-a.1.worker.0", b"%d" % number)
    await bus.client.flush()
    async with asyncio.timeout(45):
        while len(got) < 4:
            got += await feed.more()
    assert [message.data for message in got] == [b"first", b"0", b"1", b"2"]
    await feed.close()
