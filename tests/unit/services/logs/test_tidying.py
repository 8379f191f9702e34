"""Logs of deleted jobs and beyond the limits go, announced; what runs, and what another instance writes, stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from services.logs.adapters.store import LogStore
from services.logs.domain.retention import Limits
from services.logs.tidying import Tidying
from shared import events as ev
from shared.clock import ManualClock
from shared.events import Event
from shared.jobs import Job
from shared.logs_wire import Chunk, FileRef, ReplicaRef, partition_of
from tests.support.jobs import START, job_after, placed

DAY_S = 86_400
RUN = (placed(1), ev.Started())
ENDED = (*RUN, ev.AttemptEnded(reason="completed"), ev.Succeeded())


class FakeJobs:
    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.caught_up = asyncio.Event()
        self.caught_up.set()

    def get(self, job_id: str) -> Job | None:
        return self.jobs.get(job_id)


class FakeEvents:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    async def observe(self, event: Event) -> int:
        assert isinstance(event.data, ev.LogsRemoved)
        assert event.data.bytes > 0
        self.told.append((event.subject, event.data.reason))
        return 1


class Tidied:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = LogStore(root)
        self.jobs, self.events = FakeJobs(), FakeEvents()
        self.clock = ManualClock(START + timedelta(days=30))

    async def log(self, name: str, *payloads: ev.Payload) -> str:
        job = job_after(*payloads).model_copy(update={"id": name})
        self.jobs.jobs[name] = job
        partition = self.store.held.get(partition_of(name)) or self.store.hold(partition_of(name))
        assert partition is not None
        await partition.recover()
        await partition.commit([Chunk(FileRef(ReplicaRef(name, 1, "worker", 0)), 0, b"hello\n" * 100)])
        (log,) = await self.store.logs(name)
        log.store(everything=True)
        log.forget_stored()
        return name

    async def look(self, limits: Limits) -> set[str]:
        """The jobs that are left."""
        await Tidying(self.store, self.jobs, self.events, limits, self.clock).look()
        return set(self.store.layout.jobs())


@pytest.fixture
async def tidied(tmp_path: Path) -> AsyncIterator[Tidied]:
    found = Tidied(tmp_path)
    yield found
    await found.store.close()


async def test_logs_of_a_deleted_job_go_without_a_word(tidied: Tidied):
    await tidied.log("tj-a", *ENDED, ev.Deleted(by="u-ada"))
    await tidied.log("tj-b", *ENDED)
    assert await tidied.look(Limits()) == {"tj-b"}
    assert tidied.events.told == []


async def test_old_logs_of_ended_jobs_go_and_are_announced(tidied: Tidied):
    await tidied.log("tj-a", *ENDED)
    await tidied.log("tj-b", *RUN)
    assert await tidied.look(Limits(age_s=DAY_S)) == {"tj-b"}
    assert tidied.events.told == [("tj-a", "age")]
    assert await tidied.look(Limits(age_s=DAY_S)) == {"tj-b"}
    assert tidied.events.told == [("tj-a", "age")]


async def test_too_much_goes_but_never_of_a_running_job(tidied: Tidied):
    await tidied.log("tj-a", *ENDED)
    await tidied.log("tj-b", *RUN)
    assert await tidied.look(Limits(user_bytes=1)) == {"tj-b"}
    assert tidied.events.told == [("tj-a", "user-size")]


async def test_what_another_instance_writes_is_left_to_it(tidied: Tidied):
    await tidied.log("tj-a", *ENDED)
    for number in list(tidied.store.held):
        await tidied.store.let_go(number)
    assert await tidied.look(Limits(age_s=DAY_S)) == {"tj-a"}
    assert tidied.events.told == []


async def test_a_job_that_is_not_known_is_left(tidied: Tidied):
    await tidied.log("tj-a", *ENDED)
    tidied.jobs.jobs.clear()
    assert await tidied.look(Limits(age_s=DAY_S)) == {"tj-a"}
