"""A job that allows it makes room for one of higher priority, and runs again afterwards."""

from __future__ import annotations

from services.scheduler.control.world import World
from services.scheduler.domain.nodes import Node
from shared import events as ev
from shared.catalog import CatalogStore, Pool
from shared.jobs import JobState
from tests.support.scheduling import Rig
from tests.support.services import eventually, running

LOOP = "trap 'exit 0' TERM; while true; do sleep 0.05; done"


async def allow_preemption(rig: Rig, protected: str = "0s") -> None:
    """Put a public pool into the catalog before the scheduler makes its own."""
    spec = {"cluster": "main", "preemption": {"enabled": True, "protectedRunTime": protected}}
    document = {"apiVersion": "trainmaster/v1", "kind": "Pool", "metadata": {"name": "public"}, "spec": spec}
    await CatalogStore(rig.bus).put(Pool.model_validate(document), expected=0)


async def a_whole_node(scheduler) -> dict[str, int]:
    """A request that fills the only node."""

    async def look() -> Node | None:
        world: World = scheduler._world
        return next(iter(world.ledger.nodes.values()), None)

    return {"cpu_millis": (await eventually(look)).cpu_m}


async def test_a_preemptible_job_makes_room_and_runs_again_without_using_up_retries(rig: Rig):
    await allow_preemption(rig)
    scheduler = await rig.scheduler()
    async with running(scheduler):
        whole = await a_whole_node(scheduler)
        modest = await rig.submit(
            f'[ "$TM_ATTEMPT" = 2 ] || {{ {LOOP}; }}', name="modest", preemptible=True, priority=3, resolved=whole
        )
        await rig.until(modest, JobState.RUNNING)
        urgent = await rig.submit("sleep 0.2", name="urgent", priority=8, resolved=whole)
        assert (await rig.until(urgent, JobState.SUCCEEDED)).attempt.number == 1
        done = await rig.until(modest, JobState.SUCCEEDED)
    first, second = done.attempts
    assert (first.ended.reason, second.ended.reason) == (ev.EndReason.PREEMPTED, ev.EndReason.COMPLETED)
    assert first.preemption.by == urgent
    assert first.preemption.message == "makes room for a job of priority 8"
    assert first.decision is None
    told = [recorded.event.data.SUFFIX for recorded in await rig.bus.history.job_events(modest)]
    assert [name for name in told if name != "replicas.changed"] == [
        *("submitted", "placed", "started", "preemption.requested", "attempt.ended", "queued"),
        *("placed", "started", "attempt.ended", "succeeded"),
    ]


async def test_a_scheduler_that_dies_meanwhile_is_completed_by_the_next(rig: Rig):
    await allow_preemption(rig)
    scheduler = await rig.scheduler()
    async with running(scheduler):
        whole = await a_whole_node(scheduler)
        modest = await rig.submit("trap '' TERM; sleep 2", name="modest", preemptible=True, priority=3, resolved=whole)
        await rig.until(modest, JobState.RUNNING)
        urgent = await rig.submit("true", name="urgent", priority=8, resolved=whole)

        async def told() -> bool | None:
            return (await rig.job(modest)).attempt.preemption is not None or None

        await eventually(told)
    async with running(await rig.scheduler()):
        assert (await rig.until(urgent, JobState.SUCCEEDED)).attempt.number == 1
        assert (await rig.job(modest)).attempts[0].ended.reason is ev.EndReason.PREEMPTED


async def test_a_job_in_its_protected_time_is_left_alone(rig: Rig):
    await allow_preemption(rig, protected="1h")
    scheduler = await rig.scheduler()
    async with running(scheduler):
        whole = await a_whole_node(scheduler)
        modest = await rig.submit("sleep 1", name="modest", preemptible=True, priority=3, resolved=whole)
        await rig.until(modest, JobState.RUNNING)
        urgent = await rig.submit("true", name="urgent", priority=8, resolved=whole)
        done = await rig.until(modest, JobState.SUCCEEDED)
        await rig.until(urgent, JobState.SUCCEEDED)
    assert len(done.attempts) == 1
