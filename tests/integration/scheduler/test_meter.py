"""The meter over a real stream: crashes, outages, two meters at once; each window is on record once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from nats.js.errors import APIError

from services.scheduler.control.meter import Meter, usage_subject
from services.scheduler.control.usage_book import UsageBook
from services.scheduler.domain.metering import SETTLE
from shared import events as ev
from shared.bus import Bus, ConcurrentWriteError, Transition
from shared.bus.streams import USAGE
from shared.clock import ManualClock
from shared.events import Event, Usage, UsageCorrected
from shared.ids import new_job_id
from shared.jobs import Recorded
from shared.readmodel import JobReadModel
from shared.tasks import end
from tests.support.jobs import START, placed, submitted

PROJECT = "default"


class Record:
    """The events of one running job, written with times of one's choice."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.job = new_job_id()
        self.sequence = 0

    async def tell(self, payload: ev.Payload, minutes: float) -> Recorded:
        event = Event.of(
            payload,
            job=self.job,
            attempt=1,
            time=START + timedelta(minutes=minutes),
            owner="u-ada",
            project=PROJECT,
            part=str(minutes) if payload.KIND == "obs" else "",
        )
        if payload.KIND == "obs":
            return Recorded(await self.bus.observe(event), "", event)
        self.sequence = await self.bus.append_batch([Transition(event, self.sequence)])
        return Recorded(self.sequence, "", event)

    async def run(self) -> Record:
        for payload in (submitted(), placed(), ev.Started()):
            await self.tell(payload, 0)
        return self

    async def exit(self, index: int, minutes: float, *, told_at: float) -> None:
        time = START + timedelta(minutes=minutes)
        change = ev.ReplicaChange(role="worker", index=index, state="exited", at=time, exit=ev.ReplicaExit(code=0))
        await self.tell(ev.ReplicasChanged(changes=(change,)), told_at)

    async def end(self, minutes: float, reason: ev.EndReason = ev.EndReason.COMPLETED) -> Recorded:
        return await self.tell(ev.AttemptEnded(reason=reason), minutes)


@asynccontextmanager
async def metering(bus: Bus, home: Path, minutes: float) -> AsyncIterator[Meter]:
    """A meter as a scheduler has it, at a time."""
    clock = ManualClock(START + timedelta(minutes=minutes) + SETTLE)
    jobs, book = JobReadModel(home / "jobs.sqlite", bus), UsageBook(home / "usage.sqlite", bus)
    tasks = [asyncio.create_task(work) for work in (jobs.run(), book.run())]
    try:
        await asyncio.gather(jobs.caught_up.wait(), book.caught_up.wait())
        yield Meter(bus, book, jobs, clock)
    finally:
        await end(*tasks)
        jobs.close()
        book.close()


async def usage(bus: Bus) -> list[Event]:
    messages = await bus.history.messages(USAGE, usage_subject(PROJECT))
    return [ev.decode(message.data) for message in messages]


def replica_minutes(events: list[Event]) -> float:
    return sum(event.data.replica_ms for event in events if isinstance(event.data, Usage)) / 60_000


async def test_closed_windows_are_recorded_once_also_by_a_meter_that_starts_again(bus: Bus, tmp_path: Path):
    await (await Record(bus).run()).exit(0, 15, told_at=15)
    for minutes in (10, 10, 30):
        async with metering(bus, tmp_path, minutes) as meter:
            await meter.look()
            await meter.look()
    told = await usage(bus)
    assert [event.id.rpartition("/")[2] for event in told] == [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:10:00Z",
        "2026-01-01T00:20:00Z",
    ]
    assert replica_minutes(told) == 20 + 15 + 10


async def test_the_end_of_an_attempt_brings_everything_that_is_missing(bus: Bus, tmp_path: Path):
    record = await Record(bus).run()
    await record.exit(0, 3, told_at=3)
    await record.exit(1, 25, told_at=25)
    over = await record.end(25)
    async with metering(bus, tmp_path, 60) as meter:
        await meter.on_attempt_ended(over)
        await meter.on_attempt_ended(over)
    assert replica_minutes(await usage(bus)) == 3 + 25
    assert len(await usage(bus)) == 3


async def test_an_attempt_that_was_lost_is_credited_once(bus: Bus, tmp_path: Path):
    record = await Record(bus).run()
    async with metering(bus, tmp_path, 10) as meter:
        await meter.look()
    over = await record.end(15, ev.EndReason.PLATFORM)
    for _ in range(2):
        async with metering(bus, tmp_path, 15) as meter:
            await meter.on_attempt_ended(over)
    told = await usage(bus)
    assert sum(isinstance(event.data, UsageCorrected) for event in told) == 2
    assert sum(event.data.amount_micros for event in told) == 0


async def test_what_a_stale_book_does_not_know_is_not_recorded_again(bus: Bus, tmp_path: Path):
    await Record(bus).run()
    async with metering(bus, tmp_path / "one", 20) as meter:
        await meter.look()
    async with metering(bus, tmp_path / "two", 20) as meter:
        await meter.look()
    assert len(await usage(bus)) == 2


async def test_two_meters_at_once_record_each_window_once(bus: Bus, tmp_path: Path):
    for _ in range(5):
        await Record(bus).run()
    async with metering(bus, tmp_path / "one", 30) as one, metering(bus, tmp_path / "two", 30) as two:
        await asyncio.gather(one.look(), two.look())
    counted = Counter(event.id for event in await usage(bus))
    assert len(counted) == 15
    assert set(counted.values()) == {1}


async def test_a_damaged_book_is_read_anew_from_the_stream(bus: Bus, tmp_path: Path):
    await Record(bus).run()
    async with metering(bus, tmp_path, 20) as meter:
        await meter.look()
    (tmp_path / "usage.sqlite").write_bytes(b"no database")
    async with metering(bus, tmp_path, 30) as meter:
        await meter.look()
    assert len(await usage(bus)) == 3


async def test_a_writer_that_is_behind_is_refused_and_a_repeat_is_the_same_fact(bus: Bus, tmp_path: Path):
    await Record(bus).run()
    async with metering(bus, tmp_path, 10) as meter:
        await meter.look()
    (first,) = await usage(bus)
    subject = usage_subject(PROJECT)
    assert await bus.meter(first, subject=subject, expected=0) == 1
    other = first.model_copy(update={"id": "tj-other/1/worker/2026-01-01T00:00:00Z"})
    with pytest.raises(ConcurrentWriteError):
        await bus.meter(other, subject=subject, expected=0)
    assert len(await usage(bus)) == 1


async def test_nobody_takes_usage_out_of_the_stream(bus: Bus, tmp_path: Path):
    await Record(bus).run()
    async with metering(bus, tmp_path, 10) as meter:
        await meter.look()
    with pytest.raises(APIError):
        await bus.js.purge_stream(USAGE)
    with pytest.raises(APIError):
        await bus.js.delete_msg(USAGE, 1)
    assert len(await usage(bus)) == 1


async def test_the_meter_looks_when_windows_close(bus: Bus, tmp_path: Path):
    await Record(bus).run()
    async with metering(bus, tmp_path, 5) as meter:
        task = asyncio.create_task(meter.run())
        clock = meter._clock

        async def recorded(count: int) -> None:
            async with asyncio.timeout(45):
                while len(await usage(bus)) < count:
                    await asyncio.sleep(0.01)

        await asyncio.sleep(0)
        await clock.advance(60)
        await clock.advance(5 * 60)
        await recorded(1)
        await asyncio.sleep(0.05)
        await clock.advance(10 * 60)
        await recorded(2)
        await end(task)
