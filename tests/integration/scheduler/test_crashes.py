"""The scheduler is killed at any moment, or NATS is: every gang runs once and every job ends once."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shared.bus import ConcurrentWriteError
from shared.bus.provision import provision
from shared.events import StopRequested
from shared.jobs import JobState
from tests.support.nats import NatsServer
from tests.support.scheduling import Rig
from tests.support.services import eventually, running


@contextmanager
def process(rig: Rig) -> Iterator[subprocess.Popen[bytes]]:
    """The scheduler as a process of its own, killed at the end of the block."""
    settings = rig.settings()
    environment = {
        **os.environ,
        "TRAINMASTER_NATS_URL": settings.nats_url,
        "TRAINMASTER_HOME": str(settings.home),
        "TRAINMASTER_JWKS_FILE": str(settings.jwks_file),
        "TRAINMASTER_MACHINE": settings.machine,
        "TRAINMASTER_NODES": str(settings.nodes),
    }
    log = (rig.home / "scheduler.log").open("ab")
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "services.scheduler"], env=environment, stdout=log, stderr=subprocess.STDOUT
    )
    try:
        yield scheduler
    finally:
        scheduler.kill()
        scheduler.wait()
        log.close()


async def test_a_scheduler_killed_again_and_again_runs_every_gang_once(rig: Rig):
    chance = random.Random(4)  # noqa: S311  # when to kill is no secret
    command = 'echo "ran $TM_JOB_ID $TM_INDEX"; sleep 0.$((RANDOM % 9)); exit $TM_INDEX'
    jobs = [await rig.submit(command, replicas=1 + number % 2, name=f"j{number}") for number in range(10)]
    for _ in range(6):
        with process(rig):
            await asyncio.sleep(chance.uniform(0.5, 1.2))
    with process(rig):
        done = [await rig.until(job, JobState.SUCCEEDED, JobState.DECIDING, limit_s=40) for job in jobs]
    for number, job in enumerate(done):
        replicas = 1 + number % 2
        assert job.state is (JobState.SUCCEEDED if replicas == 1 else JobState.DECIDING)
        for index in range(replicas):
            assert rig.log(job.id, index=index) == f"ran {job.id} {index}\n"
        told = Counter(recorded.event.type for recorded in await rig.bus.history.job_events(job.id))
        once = ("job.placed", "job.started", "attempt.ended")
        assert [told[f"trainmaster.{name}.v1"] for name in once] == [1, 1, 1]
        assert [replica.exit.code for replica in job.attempt.replicas.values()] == list(range(replicas))


async def test_what_ended_while_no_scheduler_ran_is_taken_up(rig: Rig):
    with process(rig):
        job = await rig.submit("echo up; sleep 1; exit 7", replicas=2)
        await rig.until(job, JobState.RUNNING)
    await eventually(lambda: _ended(rig, job))
    async with running(await rig.scheduler()):
        done = await rig.until(job, JobState.DECIDING)
    assert {replica.exit.code for replica in done.attempt.replicas.values()} == {7}


async def _ended(rig: Rig, job: str) -> bool | None:
    replicas = list((rig.home / "gangs" / f"{job}-1" / "replicas").iterdir())
    return (
        all((replica / "exit.json").exists() and (replica / "exit.json").stat().st_size for replica in replicas) or None
    )


async def test_a_gang_that_no_job_knows_is_ended(rig: Rig, nats_server: NatsServer):
    async with running(await rig.scheduler()):
        job = await rig.submit("trap 'echo told to stop; exit' TERM; while true; do sleep 0.05; done")
        await rig.until(job, JobState.RUNNING)
    await nats_server.wipe()
    async with running(await rig.scheduler()):
        log = rig.home / "gangs" / f"{job}-1" / "replicas" / "worker-0" / "exit.json"

        async def look() -> bool | None:
            return (not log.exists() or log.stat().st_size > 0) or None

        await eventually(look)


async def test_a_job_that_ends_while_nats_is_away_ends_on_record_when_it_is_back(tmp_path, rig: Rig):
    own = NatsServer(tmp_path / "nats")
    own.start()
    bus = await own.bus()
    await provision(bus.js)
    rig = Rig(own, rig.home, bus)
    try:
        async with running(await rig.scheduler()):
            job = await rig.submit("sleep 0.5; echo over")
            await rig.until(job, JobState.RUNNING)
            own.kill()
            await eventually(lambda: _ended(rig, job))
            own.start()
            done = await rig.until(job, JobState.SUCCEEDED, limit_s=30)
        assert done.attempt.replica("worker", 0).exit.code == 0
    finally:
        await bus.close()
        own.kill()


async def test_the_read_model_file_may_be_lost(rig: Rig):
    async with running(await rig.scheduler()):
        job = await rig.submit("sleep 60")
        await rig.until(job, JobState.RUNNING)
    rig.settings().readmodel_file.unlink()
    async with running(await rig.scheduler()):
        with pytest.raises(ConcurrentWriteError):
            await rig.append(StopRequested(by="ada"), job, expected=1)
        await rig.append(StopRequested(by="ada"), job)
        await rig.until(job, JobState.STOPPED)
