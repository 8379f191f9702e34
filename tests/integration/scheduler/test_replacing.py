"""Nodes that fail their diagnosis are replaced within the attempt; cluster and diagnoser are pretended."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.scheduler.control import inventory
from shared import events as ev
from shared.jobs import Job, JobState
from tests.support.jobs import event
from tests.support.scheduling import Rig
from tests.support.services import eventually
from tests.support.simulated_api import api
from tests.support.simulated_engine import SimulatedEngine

WHOLE = {"cpu_millis": 64_000}
DIAGNOSED = {"diagnosis": {"enabled": True}, "resolved": WHOLE}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "REFRESH_S", 0.05)


def cluster(tmp_path: Path, count: int) -> SimulatedEngine:
    made = SimulatedEngine(tmp_path / "cluster")
    made.offer(*(f"node-{number}" for number in range(count)))
    return made


async def asked(rig: Rig, job: str, number: int) -> Job:
    """The job once the diagnosis of its round with this number is asked for."""

    async def look() -> Job | None:
        found = await rig.job(job)
        due = found.attempt.round == number and found.attempt.diagnosis_requested_at is not None
        return found if due else None

    return await eventually(look)


async def find(rig: Rig, job: str, number: int, *bad: str) -> None:
    """The outcome of a round of the diagnosis: these nodes failed."""
    outcome = ev.DiagnosisFinished(passed=not bad, bad_nodes=bad, message=", ".join(bad), round=number)
    await rig.bus.observe(event(outcome, job))


def nodes(job: Job) -> tuple[str, ...]:
    assert job.attempt.placement is not None
    return job.attempt.placement.roles[0].nodes


async def test_a_failed_node_is_replaced_within_the_attempt_also_by_the_next_scheduler(rig: Rig, tmp_path: Path):
    engine = cluster(tmp_path, 3)
    async with api(rig, engine):
        job = await rig.submit(replicas=2, **DIAGNOSED)
        first = await asked(rig, job, 1)
    failed, kept = nodes(first)
    (spare,) = {"n-node-0", "n-node-1", "n-node-2"} - {failed, kept}
    other = await rig.submit(name="other", resolved=WHOLE, excludeNodes=[spare])
    await find(rig, job, 1, failed)
    async with api(rig, engine) as users:
        second = await asked(rig, job, 2)
        assert set(nodes(second)) == {kept, spare}
        standing = (await users["root"].get(f"/v1/queue/{job}")).json()
        assert f"in round 2 of at most 3: {failed.removeprefix('n-')} left" in standing["summary"]
        taken = await rig.until(other, JobState.RUNNING, limit_s=45)
        assert nodes(taken) == (failed,)
        await find(rig, job, 2)
        started = await rig.until(job, JobState.RUNNING)
    assert started.attempt.number == 1
    assert {replica.node for replica in started.attempt.replicas.values()} == {kept, spare}
    told = [recorded.event.data for recorded in await rig.bus.history.job_events(job)]
    requests = [each for each in told if isinstance(each, ev.DiagnosisRequested)]
    assert [(each.round, each.only) for each in requests] == [(1, ()), (2, (spare,))]


async def test_two_jobs_at_once_do_not_get_the_same_spare_node(rig: Rig, tmp_path: Path):
    async with api(rig, cluster(tmp_path, 3)):
        jobs = [await rig.submit(name=name, **DIAGNOSED) for name in ("one", "two")]
        placed = [nodes(await asked(rig, job, 1)) for job in jobs]
        for job, failed in zip(jobs, placed, strict=True):
            await find(rig, job, 1, *failed)
        moved = [nodes(await asked(rig, job, 2)) for job in jobs]
    assert len({*moved}) == 2
    assert all(before != after for before, after in zip(placed, moved, strict=True))


async def test_where_no_other_node_is_free_the_attempt_ends_as_its_retry_condition_has_it(rig: Rig, tmp_path: Path):
    async with api(rig, cluster(tmp_path, 1)):
        job = await rig.submit(**DIAGNOSED)
        await find(rig, job, 1, *nodes(await asked(rig, job, 1)))
        ended = (await rig.until(job, JobState.DECIDING)).attempt.ended
    assert ended is not None
    assert ended.reason is ev.EndReason.DIAGNOSIS
    assert ended.message.endswith("no other nodes are free to take their place")
