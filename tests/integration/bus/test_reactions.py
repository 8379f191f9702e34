"""What becomes of a message, by what its handler does, against a real server and FastStream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from shared import events as ev
from shared.bus import Bus
from shared.bus.deadletters import UnhandleableError
from shared.bus.reactions import Redelivery, react, reactions_broker
from shared.bus.streams import DLQ, WATCHDOG_ATTEMPTS, Reaction
from shared.errors import UnavailableError
from shared.ids import new_job_id
from shared.jobs import Recorded
from shared.telemetry import Tracing
from tests.support.jobs import event

QUICK = Redelivery(max_deliveries=3, first_pause_s=0.01, max_pause_s=0.02)
Handler = Callable[[Recorded], Awaitable[None]]


@asynccontextmanager
async def reacting(bus: Bus, handler: Handler, reaction: Reaction = WATCHDOG_ATTEMPTS) -> AsyncIterator[None]:
    broker = reactions_broker(bus.options)
    react(
        broker,
        reaction,
        handler,
        options=bus.options,
        service="watchdog",
        tracing=Tracing("watchdog"),
        redelivery=QUICK,
    )
    await broker.start()
    try:
        yield
    finally:
        await broker.stop()


async def attempt_ended(bus: Bus) -> str:
    job = new_job_id()
    await bus.observe(
        event(ev.AttemptEnded(reason=ev.EndReason.FAILED), job), subject=f"tm.job.{job}.state.attempt.ended"
    )
    return job


async def settled(bus: Bus, reaction: Reaction = WATCHDOG_ATTEMPTS) -> None:
    """Until nothing is waiting or in hand, several looks in a row: consumers count a message a moment late."""
    quiet = 0
    async with asyncio.timeout(45):
        while quiet < 5:
            info = await bus.js.consumer_info(reaction.stream, reaction.durable)
            quiet = 0 if info.num_pending or info.num_ack_pending else quiet + 1
            await asyncio.sleep(0.02)


async def test_a_handled_event_is_acknowledged_and_leaves_no_letter(bus: Bus) -> None:
    seen: list[str] = []

    async def handle(recorded: Recorded) -> None:
        seen.append(recorded.event.subject)

    async with reacting(bus, handle):
        job = await attempt_ended(bus)
        await settled(bus)
    assert seen == [job]
    assert (await bus.js.stream_info(DLQ)).state.messages == 0


async def test_what_takes_longer_than_the_server_waits_is_not_delivered_again_meanwhile(bus: Bus) -> None:
    impatient = replace(WATCHDOG_ATTEMPTS, durable="impatient", ack_wait_s=0.3)
    await bus.js.add_consumer(impatient.stream, impatient.config())
    calls = 0

    async def take_time(_recorded: Recorded) -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(3 * impatient.ack_wait_s)

    async with reacting(bus, take_time, impatient):
        await attempt_ended(bus)
        await settled(bus, impatient)
    assert calls == 1


async def test_a_handler_that_always_fails_has_its_message_buried_with_the_reason(bus: Bus) -> None:
    calls = 0

    async def fail(_recorded: Recorded) -> None:
        nonlocal calls
        calls += 1
        raise ValueError("cannot\ndo it")

    async with reacting(bus, fail):
        job = await attempt_ended(bus)
        await settled(bus)
    assert calls == QUICK.max_deliveries
    letter = await bus.js.get_last_msg(DLQ, "tm.dlq.watchdog.valueerror")
    assert letter.headers is not None
    assert letter.headers["Tm-Detail"] == "cannot do it"
    assert letter.headers["Tm-Subject"] == f"tm.job.{job}.state.attempt.ended"
    assert job.encode() in (letter.data or b"")


async def test_a_failure_that_passes_is_handled_in_the_end(bus: Bus) -> None:
    calls = 0

    async def fail_once(_recorded: Recorded) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("not yet")

    async with reacting(bus, fail_once):
        await attempt_ended(bus)
        await settled(bus)
    assert calls == 2
    assert (await bus.js.stream_info(DLQ)).state.messages == 0


async def test_a_part_that_is_away_is_waited_for_beyond_the_limit(bus: Bus) -> None:
    calls = 0

    async def wait(_recorded: Recorded) -> None:
        nonlocal calls
        calls += 1
        if calls <= 2 * QUICK.max_deliveries:
            raise UnavailableError("the disk is full")

    async with reacting(bus, wait):
        await attempt_ended(bus)
        await settled(bus)
    assert calls == 2 * QUICK.max_deliveries + 1
    assert (await bus.js.stream_info(DLQ)).state.messages == 0


async def test_what_can_never_be_handled_is_buried_at_once(bus: Bus) -> None:
    async def refuse(_recorded: Recorded) -> None:
        raise UnhandleableError("not-for-me", "no such thing")

    async with reacting(bus, refuse):
        await attempt_ended(bus)
        await settled(bus)
    assert (await bus.js.get_last_msg(DLQ, "tm.dlq.watchdog.not-for-me")).headers is not None


async def test_bytes_that_are_no_event_are_buried_and_the_next_event_is_handled(bus: Bus) -> None:
    seen: list[str] = []

    async def handle(recorded: Recorded) -> None:
        seen.append(recorded.event.subject)

    async with reacting(bus, handle):
        await bus.js.publish("tm.job.tj-x.state.attempt.ended", b"\xff\xfe", stream="JOBS")
        job = await attempt_ended(bus)
        await settled(bus)
    assert seen == [job]
    assert (await bus.js.get_last_msg(DLQ, "tm.dlq.watchdog.malformed")).data == b"\xff\xfe"
