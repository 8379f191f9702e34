"""Samples what replicas use: a line for each into `samples` in its directory, from where it is shipped like a log.

One pass over `/proc` serves all replicas, in a thread, and passes become rarer where there are very many replicas, so
that sampling stays far below a hundredth of a CPU. Nothing is written any more once a replica's log is complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final, Protocol

from services.agent import gpus, processes
from services.agent.domain.resources import Look, Meter
from services.agent.gangs import Gangs
from services.agent.replica import SAMPLES_FILE, Replica
from shared.agent_evidence import GpuActivity
from shared.logs_wire import ReplicaRef
from shared.resource_samples import GpuSample, encode_sample

_INTERVAL_A_REPLICA_S: Final = 0.02
_log = logging.getLogger(__name__)


class Looker(Protocol):
    """How the processes of replicas, by their directories, are looked at; may take some milliseconds."""

    def __call__(self, replicas: Mapping[ReplicaRef, Path], /) -> Look:
        """What they use now."""
        ...


class Sampler:
    """Writes samples until cancelled; `written` is called when there are new ones."""

    def __init__(self, gangs: Gangs, look: Looker, written: Callable[[], None], interval_s: float) -> None:
        self._gangs = gangs
        self._look = look
        self._written = written
        self._interval_s = interval_s
        self._meter = Meter()

    async def run(self) -> None:
        """Sample again and again."""
        while True:
            running = await self.sample()
            await asyncio.sleep(max(self._interval_s, _INTERVAL_A_REPLICA_S * running))

    async def sample(self) -> int:
        """Look once and write; gives how many replicas run."""
        running = {each.manifest.replica: each for each in self._gangs.replicas.values() if _runs(each)}
        if running:
            look = await asyncio.to_thread(self._look, {ref: each.directory for ref, each in running.items()})
            samples = self._meter.samples(look)
            for ref, sample in samples.items():
                if _runs(running[ref]):
                    _append(running[ref], encode_sample(sample))
            if samples:
                self._written()
        return len(running)


def look_at_processes(replicas: Mapping[ReplicaRef, Path], *, at_s: float, at_ms: int) -> Look:
    """What `/proc` and the GPUs' driver say."""
    pids = processes.pids_of(replicas)
    burdens = {
        replica: [burden for pid in its if (burden := processes.burden_of(pid)) is not None]
        for replica, its in pids.items()
    }
    activity, _ = gpus.activity() if any(burdens.values()) else ((), ())
    return Look(at_s, at_ms, burdens, gpus_of(pids, activity))


def gpus_of(
    pids: Mapping[ReplicaRef, Collection[int]], activity: Collection[GpuActivity]
) -> dict[ReplicaRef, tuple[GpuSample, ...]]:
    """The GPUs that processes of each replica use."""
    return {
        replica: tuple(gpu_sample(each) for each in activity if not set(each.pids).isdisjoint(its))
        for replica, its in pids.items()
    }


def gpu_sample(activity: GpuActivity) -> GpuSample:
    """What of a GPU's activity is sampled."""
    return GpuSample(activity.id, activity.busy_percent, activity.memory_used_bytes)


def _runs(replica: Replica) -> bool:
    return not replica.log.tail.complete


def _append(replica: Replica, line: bytes) -> None:
    try:
        with (replica.directory / SAMPLES_FILE).open("ab") as file:
            file.write(line)
    except OSError as error:
        _log.warning("%s: no sample was written: %s", replica.directory.name, error)
    else:
        replica.add_samples()
