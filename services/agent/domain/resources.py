"""From counters to rates: how many CPUs each replica kept busy between two looks at its processes.

A process that ended takes its time with it, unless a process of the replica waited for it, which then has that time.
So the sum over a replica may fall; no time is counted for such an interval rather than a wrong one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from shared.logs_wire import ReplicaRef
from shared.resource_samples import GpuSample, Sample


@dataclass(frozen=True, slots=True)
class Burden:
    """What one process, or so many together, have used of the CPU with the children they waited for, and hold."""

    cpu_s: float
    memory_bytes: int
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Look:
    """The processes of all replicas at one moment, and the GPUs that they use."""

    at_s: float
    at_ms: int
    burdens: Mapping[ReplicaRef, Collection[Burden]]
    gpus: Mapping[ReplicaRef, tuple[GpuSample, ...]] = field(default_factory=dict)


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
            cpu_s = sum(burden.cpu_s for burden in burdens)
            present[replica] = (look.at_s, cpu_s)
            before = self._before.get(replica)
            if before is not None and look.at_s > before[0]:
                cores = max(0.0, cpu_s - before[1]) / (look.at_s - before[0])
                samples[replica] = _sample(look, replica, cores)
        self._before = present
        return samples


def _sample(look: Look, replica: ReplicaRef, cores: float) -> Sample:
    burdens = look.burdens[replica]
    memory_bytes = sum(burden.memory_bytes for burden in burdens)
    processes = sum(burden.processes for burden in burdens)
    return Sample(look.at_ms, cores, memory_bytes, processes, look.gpus.get(replica, ()))
