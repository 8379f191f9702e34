"""The job read model against a real stream: lists, restarts, damage."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from shared import events as ev
from shared.bus import Bus
from shared.ids import new_job_id
from shared.jobs import JobState
from shared.readmodel import JobQuery, JobReadModel
from tests.support.jobs import event, placed, submitted
from tests.support.services import eventually


@asynccontextmanager
async def running(path: Path, bus: Bus) -> AsyncIterator[JobReadModel]:
    model = JobReadModel(path, bus)
    task = asyncio.create_task(model.run())
    await model.caught_up.wait()
    yield model
    task.cancel()
    model.close()


async def submit(bus: Bus, name: str, **changes: object) -> tuple[str, int]:
    job = new_job_id()
    return job, await bus.append(event(submitted(name, **changes), job), expected=0)


async def test_a_submitted_job_can_be_read_once_its_sequence_is_reached(bus: Bus, tmp_path: Path) -> None:
    async with running(tmp_path / "jobs.sqlite", bus) as model:
        job, sequence = await submit(bus, "one")
        await model.reached(sequence)
        found = model.find("u-ada", "one")
        assert found is not None
        assert found.id == job
        assert [live.id for live in model.live()] == [job]


async def test_a_restart_resumes_behind_the_stored_sequence(bus: Bus, tmp_path: Path) -> None:
    async with running(tmp_path / "jobs.sqlite", bus) as model:
        job, sequence = await submit(bus, "one")
        await model.reached(sequence)
    sequence = await bus.append(event(placed(), job), expected=sequence)
    async with running(tmp_path / "jobs.sqlite", bus) as model:
        await model.reached(sequence)
        found = model.get(job)
        assert found is not None
        assert found.state is JobState.STARTING


@pytest.mark.parametrize("damage", [b"", b"garbage" * 1000, b"SQLite format 3\x00" + b"\xff" * 4096])
async def test_a_damaged_file_is_rebuilt_from_the_events(bus: Bus, tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "jobs.sqlite"
    _job, sequence = await submit(bus, "one")
    path.write_bytes(damage)
    async with running(path, bus) as model:
        await model.reached(sequence)
        assert model.find("u-ada", "one") is not None


async def test_a_file_of_another_stream_is_rebuilt(bus: Bus, tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    async with running(path, bus) as model:
        _job, sequence = await submit(bus, "old")
        await model.reached(sequence)
    await bus.js.purge_stream("JOBS")
    config = (await bus.js.stream_info("JOBS")).config
    await bus.js.delete_stream("JOBS")
    await bus.js.add_stream(config)
    async with running(path, bus) as model:
        assert model.find("u-ada", "old") is None


async def test_a_file_from_before_the_machine_was_started_is_rebuilt(bus: Bus, tmp_path: Path) -> None:
    file = tmp_path / "jobs.sqlite"
    async with running(file, bus) as model:
        job, sequence = await submit(bus, "one")
        await model.reached(sequence)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE meta SET value = 'another boot' WHERE key = 'boot'")
        database.execute("DELETE FROM jobs")  # what a loss of power took, without a trace
    async with running(file, bus) as model:
        assert model.get(job) is not None


async def test_lists_are_filtered_by_label_state_project_and_paged_newest_first(bus: Bus, tmp_path: Path) -> None:
    async with running(tmp_path / "jobs.sqlite", bus) as model:
        jobs = [await submit(bus, f"job-{i}", labels=("even",) if i % 2 == 0 else ("odd",)) for i in range(5)]
        await model.reached(jobs[-1][1])
        first = model.query(JobQuery(labels=("even",), limit=2))
        assert first.next_after is not None
        second = model.query(JobQuery(labels=("even",), limit=2, after=first.next_after))
        assert second.next_after is None
        assert {job.id for job in (*first.jobs, *second.jobs)} == {jobs[i][0] for i in (0, 2, 4)}
        assert model.query(JobQuery(states=(JobState.RUNNING,))).jobs == ()
        assert len(model.query(JobQuery(project="default", owner="u-ada")).jobs) == 5
        assert model.query(JobQuery(visible_to="u-bob")).jobs == ()
        assert len(model.query(JobQuery(visible_to="u-bob", visible_projects=("default",))).jobs) == 5


async def test_ended_jobs_are_not_live_and_deleted_ones_not_listed(bus: Bus, tmp_path: Path) -> None:
    async with running(tmp_path / "jobs.sqlite", bus) as model:
        job, sequence = await submit(bus, "one")
        for payload in (ev.StopRequested(by="u-ada"), ev.Stopped()):
            sequence = await bus.append(event(payload, job), expected=sequence)
        await model.reached(sequence)
        assert list(model.live()) == []
        assert len(model.query(JobQuery()).jobs) == 1
        sequence = await bus.append(event(ev.Deleted(by="u-ada"), job), expected=sequence)
        await model.reached(sequence)
        assert model.query(JobQuery()).jobs == ()
        assert model.find("u-ada", "one") is None


async def test_on_a_full_disk_an_event_waits_and_is_then_taken_once(bus: Bus, tmp_path: Path) -> None:
    async with running(tmp_path / "jobs.sqlite", bus) as model:
        seen: list[int] = []
        model.on_event(lambda _before, _after, recorded: seen.append(recorded.sequence))
        model._database.execute("PRAGMA max_page_count = 1")  # no more than there are
        with capture_logs() as logged:

            async def refusal() -> object:
                return next((line for line in logged if line["event"] == "readmodel_not_written"), None)

            job, sequence = await submit(bus, "one", labels=tuple("x" * 120 + str(number) for number in range(100)))
            await eventually(refusal)
        assert (list(model.live()), model.get(job), seen) == ([], None, [])
        model._database.execute("PRAGMA max_page_count = 1000000")
        await model.reached(sequence)
        assert [live.id for live in model.live()] == [job]
        assert seen == [sequence]


async def test_listeners_see_each_change_before_and_after(bus: Bus, tmp_path: Path) -> None:
    seen: list[tuple[JobState | None, JobState]] = []
    async with running(tmp_path / "jobs.sqlite", bus) as model:
        model.on_event(lambda before, after, _event: seen.append((before.state if before else None, after.state)))
        job, sequence = await submit(bus, "one")
        sequence = await bus.append(event(placed(), job), expected=sequence)
        await model.reached(sequence)
    assert seen == [(None, JobState.QUEUED), (JobState.QUEUED, JobState.STARTING)]


async def test_events_that_come_together_are_told_one_by_one_and_written_with_the_last(
    bus: Bus, tmp_path: Path
) -> None:
    job, sequence = await submit(bus, "one")
    for payload in (placed(), ev.Started(), ev.AttemptEnded(reason=ev.EndReason.COMPLETED), ev.Succeeded()):
        sequence = await bus.append(event(payload, job), expected=sequence)
    seen: list[tuple[JobState, int]] = []
    model = JobReadModel(tmp_path / "jobs.sqlite", bus)
    model.on_event(lambda _before, after, recorded: seen.append((after.state, recorded.sequence)))
    task = asyncio.create_task(model.run())
    await model.caught_up.wait()
    states = [JobState.QUEUED, JobState.STARTING, JobState.RUNNING, JobState.DECIDING, JobState.SUCCEEDED]
    assert [state for state, _sequence in seen] == states
    assert (model.sequence, list(model.live())) == (sequence, [])
    task.cancel()
    model.close()
    async with running(tmp_path / "jobs.sqlite", bus) as again:
        found = again.get(job)
        assert found is not None
        assert found.state is JobState.SUCCEEDED
