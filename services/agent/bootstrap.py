"""Wires the agent and runs it until it is asked to stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from services.agent.arrivals import Arrivals
from services.agent.courier import Courier, Times, at_once
from services.agent.domain.resources import Look
from services.agent.gangs import Gangs
from services.agent.inotify import Inotify
from services.agent.lanes import EventFileLane, LogLane
from services.agent.link import Link
from services.agent.memory import Memory
from services.agent.phases import PhaseMarks
from services.agent.prober import Prober, measure_machine, read_faults
from services.agent.sampler import Sampler, look_at_processes
from services.agent.settings import Settings
from services.agent.stacks import Stacks
from services.agent.workers import Workers, own_address
from shared.agent_evidence import stacks_subject
from shared.agent_wire import probe_subject
from shared.diagnosis_wire import cancel_subject, worker_subject
from shared.logs_wire import ReplicaRef

_CANCEL_AGAIN_S: Final = 0.25


class Agent:
    """The node agent of one machine."""

    def __init__(self, settings: Settings) -> None:
        settings.gangs.mkdir(parents=True, exist_ok=True)
        times = Times(monotonic_s=time.monotonic, unix_ms=lambda: time.time_ns() // 1_000_000)
        self._gangs = Gangs(settings.gangs, Memory(settings.state))
        self._inotify = Inotify()
        arrivals = Arrivals(self._gangs, times.monotonic_s)
        prober = Prober(partial(measure_machine, settings.home), read_faults(settings.probe_faults))
        self._workers = Workers(own_address(settings.nats_url), settings.probe_python)
        verbs = {
            probe_subject(settings.machine): prober.answer,
            stacks_subject(settings.machine): Stacks(settings.gangs).answer,
            worker_subject(settings.machine): self._workers.test,
            cancel_subject(settings.machine): self._workers.cancel,
        }
        self._link = Link(settings, arrivals, verbs)
        courier, marks = Courier(self._link, times, at_once), PhaseMarks(self._link)
        self._log_lane = LogLane(self._gangs, courier, arrivals, self._inotify, marks)
        self._sampler = Sampler(self._gangs, partial(_look_now, times), arrivals.wake["log"].set, settings.sample_s)
        self._event_file_lane = EventFileLane(self._gangs, Courier(self._link, times, asyncio.to_thread), arrivals)

    async def run(self, stopping: asyncio.Event) -> None:
        """Ship until stopping; what is kept by then is remembered."""
        works = (self._link.connect(), self._log_lane.run(), self._event_file_lane.run(), self._sampler.run())
        connecting, *lanes = tasks = [asyncio.create_task(work) for work in works]
        connecting.add_done_callback(lambda task: stopping.set() if not task.cancelled() and task.exception() else None)
        stopped = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait([stopped, *lanes], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end([stopped, *tasks])
            self._gangs.close()
            self._inotify.close()
            await self._workers.close()
            await self._link.close()
        for task in tasks:
            if not task.cancelled():
                task.result()


def _look_now(times: Times, replicas: Mapping[ReplicaRef, Path]) -> Look:
    return look_at_processes(replicas, at_s=times.monotonic_s(), at_ms=times.unix_ms())


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel until it takes: the NATS client may swallow a cancellation that comes while it is connecting."""
    while unfinished := [task for task in tasks if not task.done()]:
        for task in unfinished:
            task.cancel()
        await asyncio.wait(unfinished, timeout=_CANCEL_AGAIN_S)
