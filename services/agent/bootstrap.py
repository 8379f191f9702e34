"""Wires the agent and runs it until it is asked to stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from services.agent.arrivals import Arrivals
from services.agent.bench import Bench
from services.agent.checkpoints import Checkpoints
from services.agent.courier import Courier, Times, at_once
from services.agent.deep import DeepTests
from services.agent.gangs import Gangs
from services.agent.grounds import Means
from services.agent.host import Host, LocalHost
from services.agent.inotify import Inotify
from services.agent.lanes import EventFileLane, LogLane
from services.agent.link import Link
from services.agent.memory import Memory
from services.agent.phases import PhaseMarks
from services.agent.prober import Prober, measure_machine, read_faults
from services.agent.pulse import beat
from services.agent.sampler import Sampler
from services.agent.settings import Settings
from services.agent.shipped import ShippedVerb
from services.agent.stacks import Stacks
from services.agent.workers import Workers, own_address
from shared.agent_evidence import stacks_subject
from shared.agent_wire import Measurement, probe_subject, shipped_subject
from shared.diagnosis_wire import cancel_subject, worker_subject
from shared.nats_servers import servers

_CANCEL_AGAIN_S: Final = 0.25


class Agent:
    """The node agent of one machine."""

    def __init__(self, settings: Settings) -> None:
        settings.gangs.mkdir(parents=True, exist_ok=True)
        times = Times(monotonic_s=time.monotonic, unix_ms=lambda: time.time_ns() // 1_000_000)
        self._gangs = Gangs(settings.gangs, Memory(settings.state))
        self._inotify = Inotify()
        arrivals = Arrivals(self._gangs, times.monotonic_s)
        self._host = _host(settings, self._gangs, times)
        prober = Prober(
            partial(_measured, settings, self._host), read_faults(settings.probe_faults), self._host.look_at_places
        )
        # The way to NATS may not be known yet, so it is looked for when a diagnosis begins.
        address = partial(own_address, settings.nats_url, settings.probe_address)
        grounds = self._host.grounds
        workers = Workers(Means(address, settings.probe_python, grounds))
        self._bench = Bench(workers, DeepTests(grounds), grounds)
        verbs = {
            probe_subject(settings.machine): prober.answer,
            stacks_subject(settings.machine): Stacks(settings.gangs, find_processes=self._host.find_processes).answer,
            shipped_subject(settings.machine): ShippedVerb(settings.gangs, self._host.unknown).answer,
            worker_subject(settings.machine): self._bench.test,
            cancel_subject(settings.machine): self._bench.cancel,
        }
        self._link = Link(settings, arrivals, verbs)
        self._ready_file = settings.ready_file
        courier, marks = Courier(self._link, times, at_once), PhaseMarks(self._link)
        self._wake = arrivals.wake["log"].set
        self._checkpoints = Checkpoints(self._gangs, self._link, self._wake)
        self._log_lane = LogLane(self._gangs, courier, arrivals, self._inotify, marks, self._checkpoints)
        self._sampler = Sampler(self._gangs, self._host.look, self._wake, settings.sample_s)
        self._event_file_lane = EventFileLane(self._gangs, Courier(self._link, times, asyncio.to_thread), arrivals)

    async def run(self, stopping: asyncio.Event) -> None:
        """Ship until stopping; what is kept by then is remembered."""
        ships = (self._log_lane.run(), self._event_file_lane.run(), self._checkpoints.run())
        works = [self._link.connect(), *ships, self._sampler.run()]
        works += [self._bench.watch(), *self._host.works(self._wake)]
        works += [beat(self._ready_file, self._is_ready)] if self._ready_file else []
        connecting, *lanes = tasks = [asyncio.create_task(work) for work in works]
        connecting.add_done_callback(lambda task: stopping.set() if not task.cancelled() and task.exception() else None)
        stopped = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait([stopped, *lanes], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end([stopped, *tasks])
            self._host.close()
            self._gangs.close()
            self._inotify.close()
            await self._bench.close()
            await self._link.close()
        for task in tasks:
            if not task.cancelled():
                task.result()

    def _is_ready(self) -> bool:
        return self._link.connected and not self._host.unknown()


async def _measured(settings: Settings, host: Host) -> Measurement | None:
    names = [urlsplit(server).hostname or "" for server in servers(settings.nats_url)]
    found = await measure_machine(settings.home, filter(None, names))
    return host.seen(found) if found is not None else None


def _host(settings: Settings, gangs: Gangs, times: Times) -> Host:
    """Where replicas run; what Kubernetes needs is loaded only there, as it is larger than the rest of the agent."""
    if settings.kubernetes is None:
        return LocalHost(times)
    from services.agent.kubernetes.host import KubernetesHost  # noqa: PLC0415

    return KubernetesHost(settings.kubernetes, settings.gangs, gangs, times)


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel until it takes: the NATS client may swallow a cancellation that comes while it is connecting."""
    while unfinished := [task for task in tasks if not task.done()]:
        for task in unfinished:
            task.cancel()
        await asyncio.wait(unfinished, timeout=_CANCEL_AGAIN_S)
