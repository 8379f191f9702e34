"""Moving ended jobs to ARCHIVE: nothing is lost or doubled, wherever the mover or a reader stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared import bundles
from shared import events as ev
from shared.bundles import Stored
from shared.bus import Bus, BusUnavailableError, ConcurrentWriteError, Transition
from shared.bus.archive import NotArchivedError
from shared.bus.streams import ARCHIVE
from shared.ids import new_job_id
from shared.jobs import Job
from shared.readmodel import JobReadModel
from tests.support.archiving import acknowledge_all
from tests.support.jobs import event, placed, submitted

LIFE = (
    submitted("old"),
    placed(),
    ev.Started(),
    ev.AttemptEnded(reason=ev.EndReason.COMPLETED),
    ev.Succeeded(message="all replicas succeeded"),
)


async def ended_job(bus: Bus, *, dealt_with: bool = True) -> str:
    job, expected = new_job_id(), 0
    for payload in LIFE:
        expected = await bus.append(event(payload, job), expected=expected)
    await bus.observe(event(ev.IncidentRaised(rule="message/1", line="boom"), job, part="1"))
    if dealt_with:
        await acknowledge_all(bus)
    return job


async def subjects_of(bus: Bus, job: str) -> list[str]:
    return [message.subject for message in await bus.history.job_messages_in_jobs(job)]


@asynccontextmanager
async def running(path: Path, bus: Bus) -> AsyncIterator[JobReadModel]:
    model = JobReadModel(path, bus)
    task = asyncio.create_task(model.run())
    try:
        async with asyncio.timeout(45):
            await model.caught_up.wait()
        yield model
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        model.close()


async def test_an_archived_job_is_gone_from_jobs_and_reads_as_before(bus: Bus) -> None:
    job, other = await ended_job(bus), await ended_job(bus)
    before = await bus.history.job_events(job), await bus.load_job(job)
    assert await bus.archive.put_away(job)
    assert await subjects_of(bus, job) == []
    assert (await bus.history.job_events(job), await bus.load_job(job)) == before
    assert len(await subjects_of(bus, other)) == len(LIFE) + 1
    assert await bus.history.last_state(job) is None
    assert not await bus.archive.put_away(job)


async def test_nothing_is_archived_that_somebody_has_yet_to_react_to(bus: Bus) -> None:
    job = await ended_job(bus, dealt_with=False)
    assert not await bus.archive.put_away(job)
    assert len(await subjects_of(bus, job)) == len(LIFE) + 1
    assert (await bus.history.archived(job))[0] == []
    await acknowledge_all(bus)
    assert await bus.archive.put_away(job)


@pytest.mark.parametrize("bundles_written", [1, 3, 6])
async def test_who_begins_again_after_a_crash_finds_what_is_there(
    bus: Bus, bundles_written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "BUNDLE_MAX_BYTES", 1)
    job = await ended_job(bus)
    before = await bus.history.job_events(job)
    archive, written = bus._publisher.archive, 0

    async def dies(job: str, bundle: bytes, expected: int) -> int:
        nonlocal written
        if written == bundles_written:
            raise BusUnavailableError("killed")
        written += 1
        return await archive(job, bundle, expected)

    monkeypatch.setattr(bus._publisher, "archive", dies)
    if bundles_written < len(before):
        with pytest.raises(BusUnavailableError):
            await bus.archive.put_away(job)
    else:
        monkeypatch.setattr(bus.js, "purge_stream", _never)
        with pytest.raises(BusUnavailableError):
            await bus.archive.put_away(job)
    assert await bus.history.job_events(job) == before
    monkeypatch.undo()
    assert await bus.archive.put_away(job)
    assert await bus.history.job_events(job) == before
    archived, _last = await bus.history.archived(job)
    assert len(await bus.history.messages(ARCHIVE, f"tm.archive.{job}")) == bundles_written + (
        1 if bundles_written < len(before) else 0
    )
    assert [message.sequence for message in archived] == [recorded.sequence for recorded in before]


async def _never(*_args: object, **_more: object) -> bool:
    raise TimeoutError


async def test_of_two_who_archive_one_job_nobody_writes_it_twice(bus: Bus) -> None:
    job = await ended_job(bus)
    before = await bus.history.job_events(job)
    outcomes = await asyncio.gather(*(bus.archive.put_away(job) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(each, bool | ConcurrentWriteError) for each in outcomes)
    assert len(await bus.history.messages(ARCHIVE, f"tm.archive.{job}")) == 1
    await bus.archive.put_away(job)
    assert await bus.history.job_events(job) == before


async def test_nothing_is_purged_where_the_archive_does_not_hold_it(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await ended_job(bus)
    archived = bus.history.archived

    async def lacks_one(job: str) -> tuple[list[Stored], int]:
        there, last = await archived(job)
        return there[1:], last

    monkeypatch.setattr(bus.history, "archived", lacks_one)
    with pytest.raises(NotArchivedError, match="lacks 1 events"):
        await bus.archive.put_away(job)
    assert len(await subjects_of(bus, job)) == len(LIFE) + 1


async def test_what_comes_while_it_is_archived_stays_and_is_archived_next(bus: Bus) -> None:
    job = await ended_job(bus)
    late = event(ev.IncidentRaised(rule="late", line="x"), job, part="2")
    compare = bus.archive._compare

    async def then_something_comes(job: str, events: list[Stored]) -> None:
        await compare(job, events)
        await bus.observe(late)

    bus.archive._compare = then_something_comes  # type: ignore[method-assign]
    assert await bus.archive.put_away(job)
    assert await subjects_of(bus, job) == [f"tm.job.{job}.obs.incident.raised"]
    found = await bus.load_job(job)
    assert found is not None
    assert [each.rule for each in found.attempt.incidents] == ["message/1", "late"]
    bus.archive._compare = compare  # type: ignore[method-assign]
    assert await bus.archive.put_away(job)
    assert await bus.load_job(job) == found


async def test_a_read_model_that_is_rebuilt_has_archived_jobs(bus: Bus, tmp_path: Path) -> None:
    job, present = await ended_job(bus), await ended_job(bus)
    async with running(tmp_path / "a.sqlite", bus) as model:
        before = [model.get(job), model.get(present)]
        assert await bus.archive.put_away(job)
    for again in ("a.sqlite", "new.sqlite"):
        async with running(tmp_path / again, bus) as model:
            assert [model.get(job), model.get(present)] == before
            assert list(model.live()) == []


async def test_a_read_model_that_was_away_at_the_end_and_the_archiving_catches_up(bus: Bus, tmp_path: Path) -> None:
    job = new_job_id()
    sequence = await bus.append(event(submitted("x"), job), expected=0)
    async with running(tmp_path / "jobs.sqlite", bus) as model:
        assert [live.id for live in model.live()] == [job]
    await bus.append_batch(
        [Transition(event(ev.StopRequested(by="ada"), job), sequence), Transition(event(ev.Stopped(), job), None)]
    )
    assert await bus.archive.put_away(job)
    async with running(tmp_path / "jobs.sqlite", bus) as model:
        assert list(model.live()) == []
        assert model.get(job) == await bus.load_job(job)


async def test_a_job_that_moves_and_is_deleted_while_a_read_model_is_built_is_known_as_deleted(
    bus: Bus, tmp_path: Path
) -> None:
    job = await ended_job(bus)
    heard: list[str] = []
    model = JobReadModel(tmp_path / "jobs.sqlite", bus)
    model.on_event(lambda _before, _after, recorded: heard.append(recorded.event.data.SUFFIX))
    read_archive = model._read_archive

    async def then_it_moves() -> None:
        await read_archive()
        assert await bus.archive.put_away(job)
        await bus.append(event(ev.Deleted(by="ada"), job), expected=0)

    model._read_archive = then_it_moves  # type: ignore[method-assign]
    task = asyncio.create_task(model.run())
    try:
        async with asyncio.timeout(45):
            await model.caught_up.wait()
        found: Job | None = model.get(job)
        assert found is not None
        assert found.deleted
        assert heard[-1] == "deleted"
        assert len(heard) == len(set(heard))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        model.close()


async def test_a_deletion_after_the_archiving_is_archived_behind_it(bus: Bus, tmp_path: Path) -> None:
    job = await ended_job(bus)
    assert await bus.archive.put_away(job)
    await bus.append(event(ev.Deleted(by="ada"), job), expected=0)
    deleted = await bus.load_job(job)
    assert deleted is not None
    assert deleted.deleted
    await acknowledge_all(bus)
    assert await bus.archive.put_away(job)
    assert await subjects_of(bus, job) == []
    assert await bus.load_job(job) == deleted
    async with running(tmp_path / "jobs.sqlite", bus) as model:
        assert model.get(job) == deleted


async def test_what_was_submitted_or_deleted_before_a_time_is_found_oldest_first(bus: Bus) -> None:
    jobs = [new_job_id() for _ in range(3)]
    times = {}
    for number, job in enumerate(jobs):
        told = event(submitted(), job, at_s=number * 100)
        times[job] = told.time
        await bus.append(told, expected=0)
    assert [job async for job in bus.archive.jobs_since_before(times[jobs[1]])] == jobs[:2]
