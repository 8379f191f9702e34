"""Several real scheduler processes on one cluster: the active one is halted, another goes on, the first wakes up."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.scheduler.control.leadership import LIFE_S, STANDBY_S, Leadership
from shared.bus import Bus, Fence
from shared.clock import SystemClock
from shared.jobs import JobState
from tests.support.scheduling import Rig
from tests.support.services import eventually
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
        async with asyncio.timeout(20):
            await self._leads.wait()

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(rig: Rig, tmp_path: Path) -> Iterator[Start]:
    """Starts a module as a process whose output is in a file of its name."""
    processes: list[subprocess.Popen[bytes]] = []

    def starting(name: str, module: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        with (tmp_path / name).open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
                stdout=output,
                stderr=output,
            )
        processes.append(process)
        return process

    yield starting
    for process in processes:
        process.kill()
        process.wait()


async def said(tmp_path: Path, name: str, words: str, limit_s: float = 20) -> str:
    """What the process has said, as soon as these words are in it."""

    async def look() -> str | None:
        text = (tmp_path / name).read_text()
        return text if words in text else None

    return await eventually(look, limit_s)


def scheduler_settings(rig: Rig, tmp_path: Path, name: str) -> dict[str, str]:
    rig.settings()  # makes the files that the settings name
    (tmp_path / f"{name}-home").mkdir()
    return {
        "TRAINMASTER_NATS_URL": rig.nats.url,
        "TRAINMASTER_HOME": str(tmp_path / f"{name}-home"),
        "TRAINMASTER_INSTANCE": name,
        "TRAINMASTER_JWKS_FILE": str(rig.home / "jwks.json"),
        "TRAINMASTER_SECRET_KEYS_FILE": str(rig.home / "secret-keys.json"),
        "SIMULATED_CLUSTER": str(tmp_path / "cluster"),
    }


def test_a_lease_ends_and_is_seen_to_have_ended_within_five_seconds():
    assert LIFE_S + 1 + STANDBY_S < 5  # the server looks for what has expired once a second


async def test_another_scheduler_goes_on_and_the_halted_one_changes_nothing_when_it_wakes(
    rig: Rig, tmp_path: Path, start: Start
):
    SimulatedEngine(tmp_path / "cluster").offer("node-0", "node-1")
    module = "tests.support.scheduler_process"
    first = start("first", module, **scheduler_settings(rig, tmp_path, "first"))
    before = await rig.submit(name="before")
    await rig.until(before, JobState.RUNNING)
    start("second", module, **scheduler_settings(rig, tmp_path, "second"))
    await said(tmp_path, "second", "readmodel_caught_up")

    first.send_signal(signal.SIGSTOP)
    meanwhile = [await rig.submit(name=f"meanwhile-{number}") for number in range(3)]
    for job in meanwhile:
        await rig.until(job, JobState.RUNNING)
    first.send_signal(signal.SIGCONT)
    await said(tmp_path, "first", "leadership_lost")
    after = await rig.submit(name="after")
    await rig.until(after, JobState.RUNNING)

    for job in (before, *meanwhile, after):
        events = [recorded.event.data.SUFFIX for recorded in await rig.bus.history.job_events(job)]
        assert [suffix for suffix in events if suffix in ("placed", "started")] == ["placed", "started"]
    assert (tmp_path / "first").read_text().count("leadership_taken") == 1


async def test_the_server_refuses_what_a_deposed_scheduler_decided_before_it_was_halted(
    rig: Rig, tmp_path: Path, start: Start
):
    job, go = await rig.submit(), tmp_path / "go"
    first = start("first", "tests.support.stalled_leader", rig.nats.url, "first", job, str(go))
    await said(tmp_path, "first", "leads")
    first.send_signal(signal.SIGSTOP)
    second = Candidate(rig.bus, "second")
    await second.until_it_leads()
    go.touch()
    first.send_signal(signal.SIGCONT)
    text = await said(tmp_path, "first", "refused: leadership has moved on")
    await second.end()
    assert "written" not in text
    assert (await rig.job(job)).state is JobState.QUEUED
