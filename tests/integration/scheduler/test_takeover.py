"""Several real scheduler processes on one cluster: the active one is halted, another goes on, the first wakes up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.scheduler.control.leadership import LIFE_S, STANDBY_S, Leadership
from shared.bus import Bus, Fence
from shared.clock import SystemClock
from shared.jobs import JobState
from tests.support.modules import Modules, modules_in, scheduler_environment
from tests.support.scheduling import Rig
from tests.support.simulated_engine import SimulatedEngine


class Candidate:
    """A scheduler that leads and does nothing."""

    def __init__(self, bus: Bus, name: str):
        self._leads = asyncio.Event()
        self._task = asyncio.create_task(Leadership(bus, SystemClock(), name).run(self._lead))

    async def _lead(self, _fence: Fence) -> None:
        self._leads.set()
        await asyncio.Event().wait()

    async def until_it_leads(self) -> None:
        async with asyncio.timeout(45):
            await self._leads.wait()

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
def modules(tmp_path: Path) -> Iterator[Modules]:
    with modules_in(tmp_path) as found:
        yield found


def environment(rig: Rig, tmp_path: Path, name: str) -> dict[str, str]:
    return {**scheduler_environment(rig, tmp_path, name), "SIMULATED_CLUSTER": str(tmp_path / "cluster")}


def test_a_lease_ends_and_is_seen_to_have_ended_within_five_seconds():
    assert LIFE_S + 1 + STANDBY_S < 5  # the server looks for what has expired once a second


async def test_another_scheduler_goes_on_and_the_halted_one_changes_nothing_when_it_wakes(
    rig: Rig, tmp_path: Path, modules: Modules
):
    SimulatedEngine(tmp_path / "cluster").offer("node-0", "node-1")
    module = "tests.support.scheduler_process"
    first = modules.start("first", module, **environment(rig, tmp_path, "first"))
    before = await rig.submit(name="before")
    await rig.until(before, JobState.RUNNING)
    modules.start("second", module, **environment(rig, tmp_path, "second"))
    await modules.said("second", "readmodel_caught_up")

    first.send_signal(signal.SIGSTOP)
    meanwhile = [await rig.submit(name=f"meanwhile-{number}") for number in range(3)]
    for job in meanwhile:
        await rig.until(job, JobState.RUNNING)
    first.send_signal(signal.SIGCONT)
    await modules.said("first", "leadership_lost")
    after = await rig.submit(name="after")
    await rig.until(after, JobState.RUNNING)

    for job in (before, *meanwhile, after):
        events = [recorded.event.data.SUFFIX for recorded in await rig.bus.history.job_events(job)]
        assert [suffix for suffix in events if suffix in ("placed", "started")] == ["placed", "started"]
    assert modules.output("first").read_text().count("leadership_taken") == 1


async def test_the_server_refuses_what_a_deposed_scheduler_decided_before_it_was_halted(
    rig: Rig, tmp_path: Path, modules: Modules
):
    job, go = await rig.submit(), tmp_path / "go"
    first = modules.start("first", "tests.support.stalled_leader", rig.nats.url, "first", job, str(go))
    await modules.said("first", "leads")
    first.send_signal(signal.SIGSTOP)
    second = Candidate(rig.bus, "second")
    await second.until_it_leads()
    go.touch()
    first.send_signal(signal.SIGCONT)
    text = await modules.said("first", "refused: leadership has moved on")
    await second.end()
    assert "written" not in text
    assert (await rig.job(job)).state is JobState.QUEUED
