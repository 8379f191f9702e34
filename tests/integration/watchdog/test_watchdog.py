"""The watchdog against a real JetStream."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from services.watchdog.bootstrap import WatchdogService, bootstrap
from services.watchdog.settings import WatchdogSettings
from shared import events as ev
from shared.bus import Bus
from shared.bus.streams import WATCHDOG_ATTEMPTS
from shared.errors import UnavailableError
from shared.ids import new_job_id
from shared.jobs import Job, JobState
from tests.support import jobs
from tests.support.nats import NatsServer
from tests.support.services import eventually, running, until_connected
from tests.support.watchdog import watchdog_settings

FAILED = ev.AttemptEnded(
    reason=ev.EndReason.FAILED,
    first_failure=ev.ReplicaRef(role="worker", index=0),
    exit=ev.ReplicaExit(code=3),
)


def settings(server: NatsServer, home: Path) -> WatchdogSettings:
    return watchdog_settings(server.url, home)


async def append(bus: Bus, job: str, *payloads: ev.Payload, expected: int = 0) -> int:
    for payload in payloads:
        expected = await bus.append(jobs.event(payload, job), expected=expected)
    return expected


async def append_failed_attempt(bus: Bus) -> str:
    job = new_job_id()
    await append(bus, job, jobs.submitted(), jobs.placed(), ev.Started(), FAILED)
    return job


@pytest.fixture
async def watchdog(bus: Bus, nats_server: NatsServer, tmp_path: Path) -> AsyncIterator[WatchdogService]:
    service = await bootstrap(settings(nats_server, tmp_path))
    async with running(service):
        await service.reacts.wait()
        yield service


async def decided(bus: Bus, job: str) -> Job:
    async def look() -> Job | None:
        found = await bus.load_job(job)
        return found if found and found.attempt.decision else None

    return await eventually(look)


async def test_a_failed_attempt_is_decided_with_the_exit_status_as_reason(bus: Bus, watchdog: WatchdogService) -> None:
    job = await decided(bus, await append_failed_attempt(bus))
    assert job.attempt.decision is not None
    assert job.attempt.decision.retry is False
    assert job.attempt.decision.reason == "worker-0 ended with exit code 3; the job asks for no retries"
    assert job.state is JobState.DECIDING
    async with httpx.AsyncClient(transport=httpx.ASGITransport(watchdog.app), base_url="http://watchdog") as client:

        async def counted() -> bool | None:
            page = (await client.get("/metrics")).text
            return 'watchdog_decisions_total{retry="false",root_cause="exit-code"} 1.0' in page or None

        await eventually(counted)


async def test_a_decision_continues_the_trace_of_its_cause(bus: Bus, watchdog: WatchdogService) -> None:
    job = new_job_id()
    trace = "0af7651916cd43dd8448eb211c80319c"
    sequence = await append(bus, job, jobs.submitted(), jobs.placed())
    ended = jobs.event(FAILED, job).model_copy(update={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    await bus.append(ended, expected=sequence)
    await decided(bus, job)
    last = await bus.history.last_state(job)
    assert last is not None
    assert last.event.causationid == ended.message_id
    assert trace in (last.event.traceparent or "")


async def test_an_attempt_that_ended_while_the_watchdog_was_away_is_decided_when_it_comes(
    bus: Bus, nats_server: NatsServer, tmp_path: Path
) -> None:
    waiting = [await append_failed_attempt(bus) for _ in range(5)]
    async with running(await bootstrap(settings(nats_server, tmp_path))):
        for job in waiting:
            await decided(bus, job)


async def test_a_job_whose_decision_was_in_hand_when_a_watchdog_died_is_decided_at_once(
    bus: Bus, nats_server: NatsServer, tmp_path: Path
) -> None:
    job = await append_failed_attempt(bus)
    dying = await bus.js.pull_subscribe_bind(WATCHDOG_ATTEMPTS.durable, stream=WATCHDOG_ATTEMPTS.stream)
    assert len(await dying.fetch(1)) == 1
    async with running(await bootstrap(settings(nats_server, tmp_path))):
        await decided(bus, job)


async def test_two_watchdogs_decide_each_attempt_once(
    bus: Bus, nats_server: NatsServer, watchdog: WatchdogService, tmp_path: Path
) -> None:
    async with running(await bootstrap(settings(nats_server, tmp_path / "other"))):
        waiting = await asyncio.gather(*(append_failed_attempt(bus) for _ in range(20)))
        for job in waiting:
            await decided(bus, job)
    for job in waiting:
        kinds = [recorded.event.type for recorded in await bus.history.job_events(job)]
        assert kinds.count(ev.RetryDecided.TYPE) == 1


async def test_a_job_that_is_being_stopped_is_left_alone(bus: Bus, watchdog: WatchdogService) -> None:
    stopped = new_job_id()
    stop = ev.StopRequested(by="ada")
    await append(bus, stopped, jobs.submitted(), jobs.placed(), stop, ev.AttemptEnded(reason=ev.EndReason.STOPPED))
    await decided(bus, await append_failed_attempt(bus))

    async def all_settled() -> bool | None:
        info = await bus.js.consumer_info(WATCHDOG_ATTEMPTS.stream, WATCHDOG_ATTEMPTS.durable)
        return True if info.num_pending == 0 and info.num_ack_pending == 0 else None

    await eventually(all_settled)
    job = await bus.load_job(stopped)
    assert job is not None
    assert job.attempt.decision is None
    assert job.state is JobState.STOPPING


async def test_readiness_fails_and_names_the_consumer_that_is_gone(bus: Bus, watchdog: WatchdogService) -> None:
    transport = httpx.ASGITransport(watchdog.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://watchdog") as client:
        assert (await client.get("/readyz")).json()["ready"] is True
        await bus.js.delete_consumer(WATCHDOG_ATTEMPTS.stream, WATCHDOG_ATTEMPTS.durable)
        response = await client.get("/readyz")
    assert response.status_code == 503
    assert "watchdog-attempts of JOBS is gone" in response.json()["checks"]["watchdog-attempts"]["detail"]


async def test_it_does_not_start_without_its_consumer(bus: Bus, nats_server: NatsServer, tmp_path: Path) -> None:
    await bus.js.delete_consumer(WATCHDOG_ATTEMPTS.stream, WATCHDOG_ATTEMPTS.durable)
    with pytest.raises(UnavailableError, match="consumer watchdog-attempts of JOBS is gone"):
        await bootstrap(settings(nats_server, tmp_path))


async def test_it_does_not_start_on_a_consumer_with_another_filter(
    bus: Bus, nats_server: NatsServer, tmp_path: Path
) -> None:
    await bus.js.delete_consumer(WATCHDOG_ATTEMPTS.stream, WATCHDOG_ATTEMPTS.durable)
    other = dataclasses.replace(WATCHDOG_ATTEMPTS, subject="tm.job.*.state.started")
    await bus.js.add_consumer(other.stream, other.config())
    with pytest.raises(UnavailableError, match=r"has filter tm\.job\.\*\.state\.started"):
        await bootstrap(settings(nats_server, tmp_path))


async def test_it_goes_on_after_the_server_was_killed_and_started_again(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    server.start()
    await server.wipe()
    bus = await server.bus()
    service = await bootstrap(settings(server, tmp_path))
    try:
        async with running(service):
            await service.reacts.wait()
            server.kill()
            await until_connected(bus, wanted=False)
            server.start()
            await until_connected(bus)
            await decided(bus, await append_failed_attempt(bus))
    finally:
        await bus.close()
        server.kill()
