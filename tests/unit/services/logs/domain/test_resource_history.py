"""A history of any length in bounded room."""

from __future__ import annotations

from services.logs.domain.resource_history import ENTRIES_MAX, History
from shared.resource_samples import GpuSample, Sample


def sample(number: int, **changes: object) -> Sample:
    fields: dict = {"at_ms": number, "cpu_cores": float(number), "memory_bytes": number, "processes": 1, **changes}
    return Sample(**fields)


def test_a_short_history_has_every_sample():
    history = History()
    for number in range(3):
        history.add(sample(number))
    assert [entry.at_ms for entry in history.entries] == [0, 1, 2]
    assert history.latest == sample(2)


def test_a_long_one_is_merged_evenly_and_keeps_its_peaks():
    history = History()
    count = ENTRIES_MAX * 10
    for number in range(count):
        history.add(sample(number, memory_bytes=10**9 if number == 77 else 5))
    assert len(history.entries) <= ENTRIES_MAX
    assert sum(entry.samples for entry in history.entries) == count
    assert len({entry.samples for entry in history.entries[:-1]}) == 1
    assert history.entries[0].cpu_cores == (history.entries[0].samples - 1) / 2
    assert (history.peak_memory_bytes, history.peak_cpu_cores) == (10**9, count - 1)
    assert max(entry.memory_bytes for entry in history.entries) == 10**9


def test_gpus_are_summed():
    history = History()
    history.add(sample(1, gpus=(GpuSample("a", 50, 10), GpuSample("b", None, 20))))
    assert (history.entries[0].gpu_busy_percent, history.entries[0].gpu_memory_bytes) == (50, 30)
