"""When progress is told: soon, not often, once more at the end, and not what is known already."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from services.logs.adapters.store import LogStore
from services.logs.progress import ProgressWatch
from services.logs.scalars import ScalarReader
from shared import events as ev
from shared.clock import ManualClock
from shared.errors import UnavailableError
from shared.events import Event
from shared.jobs import Job, Recorded, fold
from shared.logs_wire import LOG_PARTITIONS, Chunk, FileRef, ReplicaRef, partition_of
from tests.support.event_files import scalars
from tests.support.jobs import START, job_after, placed


class Events:
    """One job, and what is told of it."""

    def __init__(self, job: Job) -> None:
        self.job: Job | None = job
        self.told: list[ev.ProgressReported] = []
        self.away = False

    async def load_job(self, job_id: str) -> Job | None:
        if self.away:
            raise UnavailableError("no NATS")
        return self.job

    async def observe(self, event: Event) -> int:
        assert isinstance(event.data, ev.ProgressReported)
        self.told.append(event.data)
        self.job = fold(self.job, Recorded(1000, ev.subject_of(event), event))
        return 1


class Watching:
    """A store with one job, and its watch."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock(START + timedelta(seconds=100))
        self.events = Events(job_after(placed(), ev.Started()))
        assert self.events.job is not None
        self.replica = ReplicaRef(self.events.job.id, 1, "worker", 0)
        self.store = LogStore(directory)
        self.watch = self.new_watch()
        self.written = 0

    def new_watch(self) -> ProgressWatch:
        return ProgressWatch(self.store, ScalarReader(self.store.layout), self.events, self.clock)

    async def write(self, text: str, *, end: bool = False) -> None:
        data = text.encode()
        chunks = [Chunk(FileRef(self.replica), self.written, data)]
        self.written += len(data)
        if end:
            chunks.append(Chunk(FileRef(self.replica), self.written, end=self.written))
        await self.commit(*chunks)

    async def commit(self, *chunks: Chunk) -> None:
        await self.store.held[partition_of(self.replica.job)].commit(chunks)

    @property
    def steps(self) -> list[int | None]:
        return [each.step for each in self.events.told]


@pytest.fixture
async def watching(tmp_path: Path) -> AsyncIterator[Watching]:
    found = Watching(tmp_path)
    for number in range(LOG_PARTITIONS):
        partition = found.store.hold(number)
        assert partition is not None
        await partition.recover()
    yield found
    await found.store.close()


async def test_progress_is_told_with_an_estimate_of_the_end(watching: Watching):
    await watching.write("step 25/100 loss 0.5\n")
    await watching.watch.look()
    (told,) = watching.events.told
    assert (told.step, told.total_steps, told.loss, told.fraction) == (25, 100, 0.5, 0.25)
    elapsed_s = (watching.clock.now() - START).total_seconds() - 3
    assert told.estimated_end is not None
    assert (told.estimated_end - told.at).total_seconds() == pytest.approx(3 * elapsed_s)


async def test_it_is_told_at_most_once_a_minute_and_then_with_the_latest(watching: Watching):
    for step in range(1, 40):
        await watching.write(f"step {step}/100\n")
        await watching.watch.look()
        await watching.clock.advance(3)
    assert watching.steps == [1, 21]


async def test_a_long_run_tells_it_more_rarely(watching: Watching):
    await watching.clock.advance(100_000)
    await watching.write("step 1/100\n")
    await watching.watch.look()
    await watching.write("step 2/100\n")
    await watching.clock.advance(1900)
    await watching.watch.look()
    assert watching.steps == [1]
    await watching.clock.advance(200)
    await watching.watch.look()
    assert watching.steps == [1, 2]


async def test_the_last_state_is_told_when_the_log_is_complete(watching: Watching):
    await watching.write("step 1/100\n")
    await watching.watch.look()
    await watching.write("step 100/100\n", end=True)
    await watching.watch.look()
    assert watching.steps == [1, 100]
    await watching.clock.advance(1000)
    await watching.watch.look()
    assert watching.steps == [1, 100]


async def test_what_the_events_say_already_is_not_told_again_after_a_restart(watching: Watching):
    await watching.write("step 5/100\n", end=True)
    await watching.watch.look()
    restarted = watching.new_watch()
    watching.store.bells.ring(watching.replica.job)
    await restarted.look()
    assert watching.steps == [5]


async def test_scalars_tell_it_where_the_log_does_not(watching: Watching):
    await watching.write("hello\n")
    events = FileRef(watching.replica, "tb", "a.tfevents")
    await watching.commit(Chunk(events, 0, scalars("train/loss", [0.5, 0.25, 0.125])))
    await watching.watch.look()
    (told,) = watching.events.told
    assert (told.step, told.loss, told.steps_per_second, told.fraction) == (2, 0.125, 1.0, None)


async def test_a_job_without_progress_and_one_that_is_gone_are_let_be(watching: Watching):
    await watching.write("hello\n")
    await watching.watch.look()
    watching.events.job = None
    await watching.write("step 1/2\n", end=True)
    await watching.watch.look()
    assert watching.events.told == []


async def test_while_events_cannot_be_told_it_waits(watching: Watching):
    watching.events.away = True
    await watching.write("step 1/100\n")
    await watching.watch.look()
    watching.events.away = False
    await watching.clock.advance(61)
    await watching.watch.look()
    assert watching.steps == [1]
