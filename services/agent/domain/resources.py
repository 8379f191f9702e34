"""From counters to rates: how many CPUs each replica kept busy between two looks at its processes.

A process that ended takes its time with it, unless a process of the replica waited for it, which then has that time.
So the sum over a replica may fall; no time is counted for such an interval rather than a wrong one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from shared.logs_wire import ReplicaRef
from shared.resource_samples import GpuSample, Sample


@dataclass(frozen=True, slots=True)
class Burden:
    """What one process has used of the CPU with the children it waited for, and holds of memory."""

    cpu_s: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Look:
    """The processes of all replicas at one moment."""

    at_s: float
    at_ms: int
    burdens: Mapping[ReplicaRef, Mapping[int, Burden]]
    gpus: Collection[tuple[GpuSample, frozenset[int]]] = ()


class Meter:
    """Remembers the look before."""

    def __init__(self) -> None:
        self._before: dict[ReplicaRef, tuple[float, float]] = {}

    def samples(self, look: Look) -> dict[ReplicaRef, Sample]:
        """A sample of each replica that has processes, from its second look on."""
        samples, present = {}, {}
        for replica, burdens in look.burdens.items():
            if not burdens:
                continue
            cpu_s = sum(burden.cpu_s for burden in burdens.values())
            present[replica] = (look.at_s, cpu_s)
            before = self._before.get(replica)
            if before is not None and look.at_s > before[0]:
                cores = max(0.0, cpu_s - before[1]) / (look.at_s - before[0])
                samples[replica] = _sample(look, burdens, cores)
        self._before = present
        return samples


def _sample(look: Look, burdens: Mapping[int, Burden], cores: float) -> Sample:
    memory_bytes = sum(burden.memory_bytes for burden in burdens.values())
    gpus = tuple(gpu for gpu, pids in look.gpus if not pids.isdisjoint(burdens))
    return Sample(look.at_ms, cores, memory_bytes, len(burdens), gpus)
