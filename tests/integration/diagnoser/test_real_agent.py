"""The diagnoser with a real node agent: what becomes of its processes when the job, or the agent itself, goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

from services.diagnoser.bootstrap import bootstrap
from services.diagnoser.domain import stages
from shared import events as ev
from shared.agent_wire import encode_probe_request, probe_subject
from shared.bus import Bus, BusUnavailableError
from tests.support import jobs
from tests.support.diagnosers import diagnosing, outcome, request, settings
from tests.support.nats import NatsServer
from tests.support.services import eventually, running

MACHINE = "real"


@asynccontextmanager
async def agent(bus: Bus, server: NatsServer, home: Path) -> AsyncIterator[psutil.Process]:
    """A node agent of this machine that answers."""
    environment = {"TRAINMASTER_HOME": str(home), "TRAINMASTER_NATS_URL": server.url, "TRAINMASTER_MACHINE": MACHINE}
    with (home / "agent.log").open("ab") as log:
        made = subprocess.Popen(
            [sys.executable, "-m", "services.agent"], env={**os.environ, **environment}, stdout=log, stderr=log
        )

    async def answers() -> bool | None:
        with suppress(BusUnavailableError):
            await bus.ask(probe_subject(MACHINE), encode_probe_request(()), within_s=5)
            return True
        return None

    try:
        await eventually(answers, 30)
        yield psutil.Process(made.pid)
    finally:
        made.kill()
        made.wait()


async def halted(agent: psutil.Process) -> list[psutil.Process]:
    """The processes of a diagnosis under the agent, halted in the middle of what they do."""

    async def look() -> list[psutil.Process] | None:
        found = []
        for each in agent.children(recursive=True):
            with suppress(psutil.Error):  # it has ended meanwhile
                if "worker" in " ".join(each.cmdline()):
                    each.suspend()
                    found.append(each)
        return found or None

    return await eventually(look, 30)


def is_there(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


async def gone(processes: list[psutil.Process]) -> bool:
    async def look() -> bool | None:
        return not any(map(is_there, processes)) or None

    return await eventually(look, 30)


async def test_a_stop_of_the_job_ends_processes_that_hang_in_a_test(
    bus: Bus, nats_server: NatsServer, tmp_path: Path
) -> None:
    job = await diagnosing(bus)
    async with agent(bus, nats_server, tmp_path) as real, running(await bootstrap(settings(nats_server))):
        await request(bus, job, {"n-71": MACHINE})
        processes = await halted(real)
        found = await bus.load_job(job)
        assert found is not None
        await bus.append(jobs.event(ev.StopRequested(by="ada"), job), expected=found.sequence)
        assert await gone(processes)
        assert real.is_running()
    after = await bus.load_job(job)
    assert after is not None
    assert after.attempt.diagnosis is None


async def test_an_agent_that_is_killed_in_the_middle_leaves_a_result_and_no_process(
    bus: Bus, nats_server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(stages._CPU, "begin", stages.Timing(0.0, 3.0))
    job = await diagnosing(bus)
    service = await bootstrap(settings(nats_server, probe_deadline_s=3))
    async with running(service), agent(bus, nats_server, tmp_path) as real:
        await request(bus, job, {"n-72": MACHINE})
        processes = await halted(real)
        real.send_signal(signal.SIGKILL)
        for each in processes:
            each.resume()
        assert await gone(processes)
        found = await outcome(bus, job)
    assert not found.passed
    # The processes are there while facts are looked at: whichever of both the agent was at, it is missing.
    assert "no answer" in found.message or "no measurement in time" in found.message
