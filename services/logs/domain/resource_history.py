"""What a replica used over time, in bounded room however long it runs.

A `History` keeps at most `ENTRIES_MAX` entries. When it is full, neighbours are merged two by two, and from then on so
many samples make one entry: the whole run is always there, the finer the shorter it is. Of an entry's samples the mean
of what is a rate is kept, and the most of what is a size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared.resource_samples import Sample

ENTRIES_MAX: Final = 512


@dataclass(frozen=True, slots=True)
class Entry:
    """Some samples in a row as one; GPU figures are sums over the replica's GPUs."""

    at_ms: int
    cpu_cores: float
    memory_bytes: int
    gpu_busy_percent: float
    gpu_memory_bytes: int
    samples: int = 1


class History:
    """All samples of a replica so far."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.latest: Sample | None = None
        self.peak_cpu_cores = 0.0
        self.peak_memory_bytes = 0
        self.peak_gpu_memory_bytes = 0
        self._an_entry = 1

    def add(self, sample: Sample) -> None:
        """One more sample."""
        entry = entry_of(sample)
        self.latest = sample
        self.peak_cpu_cores = max(self.peak_cpu_cores, entry.cpu_cores)
        self.peak_memory_bytes = max(self.peak_memory_bytes, entry.memory_bytes)
        self.peak_gpu_memory_bytes = max(self.peak_gpu_memory_bytes, entry.gpu_memory_bytes)
        if self.entries and self.entries[-1].samples < self._an_entry:
            self.entries[-1] = _merged(self.entries[-1], entry)
        else:
            self.entries.append(entry)
        if len(self.entries) > ENTRIES_MAX:
            self._merge_neighbours()

    def _merge_neighbours(self) -> None:
        pairs = [self.entries[at : at + 2] for at in range(0, len(self.entries), 2)]
        self.entries = [_merged(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        self._an_entry *= 2


def entry_of(sample: Sample) -> Entry:
    """The entry of one sample."""
    busy = sum(gpu.busy_percent or 0.0 for gpu in sample.gpus)
    memory = sum(gpu.memory_bytes or 0 for gpu in sample.gpus)
    return Entry(sample.at_ms, sample.cpu_cores, sample.memory_bytes, busy, memory)


def _merged(first: Entry, second: Entry) -> Entry:
    samples = first.samples + second.samples
    return Entry(
        at_ms=first.at_ms,
        cpu_cores=(first.cpu_cores * first.samples + second.cpu_cores * second.samples) / samples,
        memory_bytes=max(first.memory_bytes, second.memory_bytes),
        gpu_busy_percent=(first.gpu_busy_percent * first.samples + second.gpu_busy_percent * second.samples) / samples,
        gpu_memory_bytes=max(first.gpu_memory_bytes, second.gpu_memory_bytes),
        samples=samples,
    )
