"""Of several schedulers one is active, and one that was deposed changes nothing any more."""

from __future__ import annotations

import asyncio

import pytest

from services.scheduler.control.journal import Journal
from services.scheduler.control.leadership import LIFE_S, RENEWAL_S, Leadership
from services.scheduler.domain.reconcile import Fact
from shared import events as ev
from shared.bus import Bus, Fence, FencedError
from shared.clock import ManualClock
from shared.jobs import JobState
from tests.support.jobs import START
from tests.support.scheduling import Rig
from tests.support.services import eventually, running


class Candidate:
    """A scheduler that does nothing but lead."""

    def __init__(self, bus: Bus, name: str):
        self.clock = ManualClock()
        self.fences: list[Fence] = []
        self.leads = False
        self.task = asyncio.create_task(Leadership(bus, self.clock, name).run(self._work))

    async def _work(self, fence: Fence) -> None:
        self.fences.append(fence)
        self.leads = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leads = False

    async def until(self, leads: bool) -> None:
        async def look() -> bool | None:
            await self.clock.advance(RENEWAL_S)
            return True if self.leads is leads else None

        await eventually(look)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_the_first_leads_and_the_second_waits_until_it_leaves(bus: Bus):
    first = Candidate(bus, "first")
    await first.until(leads=True)
    second = Candidate(bus, "second")
    for _ in range(3):
        await second.clock.advance(RENEWAL_S)
        await asyncio.sleep(0.02)
    assert not second.leads
    await first.end()
    await second.until(leads=True)
    assert second.fences[0].epoch > first.fences[0].epoch
    await second.end()


async def test_a_successor_with_the_same_name_takes_over_at_once(bus: Bus):
    dead = Candidate(bus, "home")
    await dead.until(leads=True)
    successor = Candidate(bus, "home")
    await successor.until(leads=True)
    await successor.end()
    await dead.end()


async def test_a_holder_that_lost_the_lease_stops_working(bus: Bus):
    first = Candidate(bus, "first")
    await first.until(leads=True)
    await bus.js.publish("$KV.leases.scheduler", b'{"holder": "second"}')
    await first.until(leads=False)
    await first.end()


async def test_the_lease_is_renewed_while_its_holder_lives(bus: Bus):
    first = Candidate(bus, "first")
    await first.until(leads=True)
    before = (await bus.js.get_last_msg("KV_leases", "$KV.leases.scheduler")).seq

    async def renewed() -> bool | None:
        await first.clock.advance(RENEWAL_S)
        return (await bus.js.get_last_msg("KV_leases", "$KV.leases.scheduler")).seq > before or None

    await eventually(renewed)
    assert LIFE_S > 2 * RENEWAL_S
    await first.end()


async def test_what_a_deposed_scheduler_writes_is_refused(rig: Rig):
    job = await rig.job(await rig.submit())
    old = Fence(await rig.bus.elect(_elected("old", rig), expected=await rig.bus.history.epoch()))
    await rig.bus.elect(_elected("new", rig), expected=old.epoch)
    placed = ev.Placed(cluster="main", roles=())
    with pytest.raises(FencedError):
        await Journal(rig.bus, old).append(job, [Fact(placed, START, 1)])
    assert (await rig.job(job.id)).state is JobState.QUEUED


async def test_a_scheduler_that_is_deposed_while_it_works_steps_down_and_comes_back(rig: Rig):
    async with running(await rig.scheduler()):
        job = await rig.submit("sleep 60", name="one")
        await rig.until(job, JobState.RUNNING)
        # Its epoch is over, though its lease is not: the next thing that it writes is refused.
        await rig.bus.elect(_elected("intruder", rig), expected=await rig.bus.history.epoch())
        await rig.append(ev.StopRequested(by="ada"), job)
        await rig.until(job, JobState.STOPPED)


def _elected(holder: str, rig: Rig) -> ev.Event:
    fact = ev.LeaderElected(holder=holder)
    return ev.Event.of(fact, job="scheduler", attempt=0, time=START, owner="", project="", part=f"{holder}{rig.home}")
