"""Jobs from their submission to their end, with real processes."""

from __future__ import annotations

import asyncio
import json
import random

from shared import events as ev
from shared.bus import ConcurrentWriteError
from shared.jobs import Job, JobState
from tests.support.scheduling import Rig
from tests.support.services import eventually, running

BIG = {"cpu_millis": 100_000}


async def test_a_gang_runs_and_the_job_succeeds(rig: Rig):
    async with running(await rig.scheduler()):
        job = await rig.submit("echo $RANK of $WORLD_SIZE", replicas=2)
        done = await rig.until(job, JobState.SUCCEEDED)
    told = [recorded.event.data.SUFFIX for recorded in await rig.bus.history.job_events(job)]
    assert told[:2] == ["submitted", "placed"]
    assert [name for name in told if name != "replicas.changed"] == [
        "submitted",
        "placed",
        "started",
        "attempt.ended",
        "succeeded",
    ]
    assert [rig.log(job, index=index) for index in range(2)] == ["0 of 2\n", "1 of 2\n"]
    assert {replica.state for replica in done.attempt.replicas.values()} == {"Succeeded"}
    assert done.attempt.started_at is not None


async def test_the_first_failure_ends_the_attempt_and_is_told(rig: Rig):
    async with running(await rig.scheduler()):
        job = await rig.submit('[ "$RANK" = 1 ] && exit 3; exit 0', replicas=2)
        done = await rig.until(job, JobState.DECIDING)
        assert done.attempt.ended.reason is ev.EndReason.FAILED
        assert done.attempt.ended.first_failure == ev.ReplicaRef(role="worker", index=1)
        assert done.attempt.ended.exit.code == 3
        await rig.append(ev.RetryDecided(retry=False, reason="no"), job)
        done = await rig.until(job, JobState.FAILED)
    assert "worker-1" in done.message
    assert "exited with code 3" in done.message


async def test_a_retry_is_a_second_attempt_with_a_gang_of_its_own(rig: Rig):
    async with running(await rig.scheduler()):
        job = await rig.submit('[ "$TM_ATTEMPT" = 2 ]')
        await rig.until(job, JobState.DECIDING)
        await rig.append(ev.RetryDecided(retry=True, reason="once more"), job)
        done = await rig.until(job, JobState.SUCCEEDED)
    assert [attempt.ended.reason for attempt in done.attempts] == [ev.EndReason.FAILED, ev.EndReason.COMPLETED]


async def test_a_running_job_is_stopped(rig: Rig):
    async with running(await rig.scheduler()):
        job = await rig.submit("trap 'echo bye; exit 0' TERM; echo up; while true; do sleep 0.05; done", replicas=2)
        await rig.until(job, JobState.RUNNING)
        await rig.append(ev.StopRequested(by="ada", reason="enough"), job)
        done = await rig.until(job, JobState.STOPPED)
    assert (done.message, done.attempt.ended.reason) == ("enough", ev.EndReason.STOPPED)
    assert {replica.state for replica in done.attempt.replicas.values()} == {"Stopped"}


async def test_a_waiting_job_is_stopped(rig: Rig):
    async with running(await rig.scheduler()):
        job = await rig.submit(resolved=BIG)
        await rig.append(ev.StopRequested(by="ada"), job)
        done = await rig.until(job, JobState.STOPPED)
    assert done.attempt.placement is None


async def test_a_job_that_had_its_time_is_ended(rig: Rig):
    async with running(await rig.scheduler()):
        job = await rig.submit("sleep 60", maxRunTime="300ms")
        done = await rig.until(job, JobState.DECIDING)
    assert done.attempt.ended.reason is ev.EndReason.MAX_RUN_TIME


async def test_a_gang_that_cannot_be_started_fails_with_the_reason(rig: Rig):
    async with running(await rig.scheduler()):
        gone = ev.ResolvedMount(mount_path="/mnt/x", type="storage", source="x", uri="file:///nowhere", root=None)
        job = await rig.submit(mounts=[], resolved_mounts=(gone,))
        done = await rig.until(job, JobState.DECIDING)
    assert done.attempt.ended.reason is ev.EndReason.FAILED
    assert "/nowhere" in done.attempt.ended.message


async def test_a_gang_takes_several_nodes_or_waits_for_them(rig: Rig):
    rig.nodes = 4
    async with running(await rig.scheduler()):
        cores = await _cores_of_a_node(rig)
        whole = {"cpu_millis": cores, "pool_name": "public"}
        first = await rig.submit("sleep 60", replicas=3, name="first", resolved=whole)
        await rig.until(first, JobState.RUNNING)
        second = await rig.submit("true", replicas=2, name="second", resolved=whole)
        third = await rig.submit("true", replicas=1, name="third", resolved=whole)
        await rig.until(third, JobState.SUCCEEDED)
        assert (await rig.job(second)).state is JobState.QUEUED
        await rig.append(ev.StopRequested(by="ada"), first)
        done = await rig.until(second, JobState.SUCCEEDED)
    assert len({replica.node for replica in done.attempt.replicas.values()}) == 2


async def _cores_of_a_node(rig: Rig) -> int:
    async def look() -> int | None:
        message = await rig.bus.history.messages("NODES", "tm.node.>", after=0)
        return json.loads(message[0].data)["data"]["cpuMillis"] if message else None

    return await eventually(look)


async def test_higher_priority_goes_first(rig: Rig):
    async with running(await rig.scheduler()):
        cores = await _cores_of_a_node(rig)
        whole = {"cpu_millis": cores}
        blocker = await rig.submit("sleep 60", name="blocker", resolved=whole)
        await rig.until(blocker, JobState.RUNNING)
        low = await rig.submit("true", name="low", priority=1, resolved=whole)
        high = await rig.submit("true", name="high", priority=9, resolved=whole)
        await rig.append(ev.StopRequested(by="ada"), blocker)
        last = await rig.until(low, JobState.SUCCEEDED)
        first = await rig.until(high, JobState.SUCCEEDED)
    assert first.attempt.placed_at <= last.attempt.placed_at
    assert first.sequence < last.sequence


async def test_jobs_that_are_stopped_at_any_moment_give_everything_back(rig: Rig):
    async with running(await rig.scheduler()):
        chance = random.Random(7)  # noqa: S311  # when to stop is no secret

        async def one(number: int) -> Job:
            job = await rig.submit("sleep 60", name=f"j{number}", resolved={"cpu_millis": 250})
            await asyncio.sleep(chance.uniform(0, 0.4))
            await _stop(rig, job)
            return await rig.until(job, JobState.STOPPED)

        done = await asyncio.gather(*(one(number) for number in range(16)))
        whole = {"cpu_millis": await _cores_of_a_node(rig)}
        last = await rig.submit("true", name="last", resolved=whole)
        await rig.until(last, JobState.SUCCEEDED)
    assert all(job.attempt.placement is None or job.attempt.ended for job in done)


async def _stop(rig: Rig, job: str) -> None:
    while True:
        try:
            await rig.append(ev.StopRequested(by="ada"), job)
        except ConcurrentWriteError:
            continue
        return
