"""What the scheduler puts on record, once however often it is written."""

from __future__ import annotations

from datetime import timedelta

from services.scheduler.control.journal import CHANGES_MAX, Journal
from services.scheduler.domain.reconcile import Fact
from shared import events as ev
from shared.bus import Bus, Fence
from shared.jobs import JobState
from tests.support.jobs import START, placed
from tests.support.nats import NatsServer
from tests.support.scheduling import Rig


def changes(count: int) -> tuple[ev.ReplicaChange, ...]:
    return tuple(ev.ReplicaChange(role="worker", index=n, state="started", at=START) for n in range(count))


async def journal(bus: Bus) -> Journal:
    elected = ev.Event.of(
        ev.LeaderElected(holder="me"), job="scheduler", attempt=0, time=START, owner="", project="", part=str(id(bus))
    )
    return Journal(bus, Fence(await bus.elect(elected, expected=await bus.history.epoch())))


async def test_several_transitions_are_written_together(rig: Rig):
    made = await journal(rig.bus)
    job = await rig.job(await rig.submit())
    facts = [Fact(placed(1), START, 1), Fact(ev.Started(), START, 1)]
    sequence = await made.append(job, facts)
    after = await rig.job(job.id)
    assert (after.state, after.sequence) == (JobState.RUNNING, sequence)


async def test_writing_again_after_a_lost_answer_is_the_same_write(rig: Rig):
    made = await journal(rig.bus)
    job = await rig.job(await rig.submit())
    first = await made.append(job, [Fact(placed(1), START, 1)])
    again = await made.append(job, [Fact(placed(1), START + timedelta(seconds=5), 1)])
    assert again == first


async def test_many_changes_are_told_in_several_events(rig: Rig):
    made = await journal(rig.bus)
    job = await rig.job(await rig.submit())
    await made.report(job, changes(2 * CHANGES_MAX + 1), START)
    told = [r.event.data for r in await rig.bus.history.job_events(job.id) if r.event.data.SUFFIX == "replicas.changed"]
    assert [len(event.changes) for event in told] == [CHANGES_MAX, CHANGES_MAX, 1]


async def test_the_same_changes_are_told_once(rig: Rig, nats_server: NatsServer):
    made = await journal(rig.bus)
    job = await rig.job(await rig.submit())
    sequences = [await made.report(job, changes(3), START) for _ in range(2)]
    assert sequences[0] == sequences[1]
