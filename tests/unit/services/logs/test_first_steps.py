"""When the first steps of an attempt are told: once, as soon as every rank has said all, or at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from services.logs.adapters.store import LogStore
from services.logs.domain.steps import RANKS_MAX, WINDOWS_MAX
from services.logs.first_steps import LIMIT_S, PLAIN_S, FirstSteps
from shared import events as ev
from shared.clock import ManualClock
from shared.errors import UnavailableError
from shared.events import MAX_EVENT_BYTES, Event, RankSteps, encode
from shared.jobs import Job
from shared.logs_wire import LOG_PARTITIONS, Chunk, FileRef, ReplicaRef, partition_of
from tests.support.event_files import event, simple_value
from tests.support.jobs import START, job_after, placed


class Events:
    """One job, and what is told of it."""

    def __init__(self, job: Job) -> None:
        self.job: Job | None = job
        self.told: list[ev.StepsMeasured] = []
        self.away = False

    async def load_job(self, job_id: str) -> Job | None:
        if self.away:
            raise UnavailableError("no NATS")
        return self.job

    async def observe(self, event: Event) -> int:
        assert isinstance(event.data, ev.StepsMeasured)
        self.told.append(event.data)
        return 1


class Watching:
    """A store with one job of four replicas, and its watch."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock(START + timedelta(seconds=100))
        self.events = Events(job_after(placed(4), ev.Started()))
        assert self.events.job is not None
        self.job = self.events.job.id
        self.store = LogStore(directory)
        self.watch = FirstSteps(self.store, self.events, self.clock)
        self.written: dict[int, int] = {}

    async def write(self, index: int, text: str, *, at_s: float = 0.0) -> None:
        at, data = self.written.get(index, 0), text.encode()
        self.written[index] = at + len(data)
        times = ((at, int(1000 * (START.timestamp() + at_s))),)
        await self.commit(Chunk(FileRef(self.replica(index)), at, data, times=times))

    async def end(self, *indexes: int) -> None:
        for index in indexes:
            size = self.written.setdefault(index, 0)
            await self.commit(Chunk(FileRef(self.replica(index)), size, end=size))

    async def commit(self, chunk: Chunk) -> None:
        await self.store.held[partition_of(self.job)].commit([chunk])

    def replica(self, index: int) -> ReplicaRef:
        return ReplicaRef(self.job, 1, "worker", index)

    async def windows(self, rank: int, *lefts: int) -> None:
        """Lines of the hook, of which so many are left after each."""
        for left in lefts:
            step = f"TM_STEPS={130 - 10 * left} rank={rank}/4"
            await self.write(rank, f"{step} compute_ms=20 wait_ms=1 data_ms=0 left={left}\n")


@pytest.fixture
async def watching(tmp_path: Path) -> AsyncIterator[Watching]:
    found = Watching(tmp_path)
    for number in range(LOG_PARTITIONS):
        partition = found.store.hold(number)
        assert partition is not None
        await partition.recover()
    yield found
    await found.store.close()


def told(watching: Watching) -> list[tuple[int, int]]:
    """Rank and number of windows of the one event."""
    (measured,) = watching.events.told
    return [(rank.rank, len(rank.last_steps)) for rank in measured.ranks]


async def test_it_is_told_once_every_rank_has_said_all(watching: Watching):
    for rank in range(4):
        await watching.windows(rank, 2, 1)
    await watching.watch.look()
    assert watching.events.told == []
    for rank in range(4):
        await watching.windows(rank, 0)
    await watching.watch.look()
    assert told(watching) == [(0, 3), (1, 3), (2, 3), (3, 3)]
    await watching.write(0, "step 131\n")
    await watching.watch.look()
    assert len(watching.events.told) == 1


async def test_a_line_that_comes_in_two_pieces_is_read(watching: Watching):
    await watching.write(0, "TM_STEPS=130 rank=0/1 compute")
    await watching.watch.look()
    await watching.write(0, "_ms=20 wait_ms=1 data_ms=0 left=0\n")
    await watching.watch.look()
    assert told(watching) == [(0, 1)]


async def test_what_there_is_is_told_when_the_logs_end_or_the_time_is_up(watching: Watching):
    await watching.windows(0, 2)
    await watching.windows(1, 2)
    await watching.watch.look()
    await watching.clock.advance(LIMIT_S - 1)
    await watching.watch.look()
    assert watching.events.told == []
    await watching.clock.advance(2)
    await watching.watch.look()
    assert told(watching) == [(0, 1), (1, 1)]


async def test_short_jobs_are_told_of_at_their_end(watching: Watching):
    await watching.windows(0, 2)
    await watching.end(0)
    await watching.watch.look()
    assert told(watching) == [(0, 1)]


async def test_replicas_that_count_steps_themselves_are_compared_by_the_times_of_their_lines(watching: Watching):
    for second in range(0, 100, 5):
        for index in range(4):
            await watching.write(index, f"step {second // (2 if index == 1 else 1)}\n", at_s=second)
    await watching.watch.look()
    assert watching.events.told == []
    await watching.clock.advance(PLAIN_S)
    await watching.watch.look()
    (measured,) = watching.events.told
    assert measured.source == "log"
    slow = {rank.index: rank.compute_ms[0] for rank in measured.ranks}
    assert slow == pytest.approx({0: 1000, 1: 2000, 2: 1000, 3: 1000}, rel=0.1)


async def test_else_their_scalars_are_compared_by_the_hosts_in_the_names_of_the_files(watching: Watching):
    for index in range(4):
        await watching.write(index, "hello\n")
        data = b"".join(
            event(1e9 + step * (3 if index == 2 else 1), step, simple_value("loss", 1)) for step in range(50)
        )
        path = f"run/events.out.tfevents.1700000000.{watching.job}-1-worker-{index}.17.0"
        await watching.commit(Chunk(FileRef(watching.replica(0), "tb", path), 0, data))
    await watching.end(0, 1, 2, 3)
    await watching.watch.look()
    (measured,) = watching.events.told
    assert measured.source == "scalars"
    assert {rank.index: rank.compute_ms[0] for rank in measured.ranks} == {0: 1000, 1: 1000, 2: 3000, 3: 1000}


async def test_a_job_of_which_one_replica_counts_steps_is_left_alone(watching: Watching):
    for index in range(4):
        await watching.write(index, "step 1\nstep 100\n" if index == 0 else "hello\n")
    await watching.end(0, 1, 2, 3)
    await watching.watch.look()
    assert watching.events.told == []


async def test_an_attempt_that_was_judged_is_not_told_of_again_after_a_restart(watching: Watching):
    assert watching.events.job is not None
    judged = ev.BurnInJudged(source="hook", ranks=4, last_step=130)
    watching.events.job = job_after(placed(4), ev.Started(), judged).model_copy(update={"id": watching.job})
    await watching.windows(0, 0)
    await watching.end(0)
    await watching.watch.look()
    assert watching.events.told == []


async def test_while_events_cannot_be_told_it_waits(watching: Watching):
    watching.events.away = True
    await watching.windows(0, 0)
    await watching.end(0)
    await watching.watch.look()
    watching.events.away = False
    await watching.watch.look()
    assert told(watching) == [(0, 1)]


def test_the_largest_event_is_within_the_limit() -> None:
    many = (12345.678,) * WINDOWS_MAX
    rank = RankSteps(
        role="r" * 40,
        index=1000,
        rank=9000,
        last_steps=(123_456,) * WINDOWS_MAX,
        compute_ms=many,
        wait_ms=many,
        data_ms=many,
    )
    measured = ev.StepsMeasured(source="hook", ranks=(rank,) * RANKS_MAX)
    body = encode(Event.of(measured, job="tj-a", attempt=1, time=START, owner="u", project="p"))
    assert len(body) < MAX_EVENT_BYTES
