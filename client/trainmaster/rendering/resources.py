"""`top`: a line for each replica, with its CPU over the attempt as a row of bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rich.table import Table

from trainmaster.documents.resources import GpuUse, ReplicaResources
from trainmaster.rendering.moments import clock_time
from trainmaster.rendering.style import table

_HEADERS: Final = ("REPLICA", "CPU", "MEMORY", "PEAK", "PROCESSES", "GPU", "GPU MEMORY", "CPU OVER THE ATTEMPT", "AT")
_BARS: Final = "▁▂▃▄▅▆▇█"
_BARS_MOST: Final = 24
_GIB: Final = 1 << 30
_MIB: Final = 1 << 20


def resource_table(replicas: Sequence[ReplicaResources]) -> Table:
    """All replicas."""
    return table(_HEADERS, (_row(each) for each in replicas))


def _row(used: ReplicaResources) -> tuple[object, ...]:
    return (
        used.name,
        f"{used.cpu_cores:.2f}",
        size(used.memory_bytes),
        size(used.peak_memory_bytes),
        used.processes,
        " ".join(_percent(gpu) for gpu in used.gpus),
        " ".join(size(gpu.memory_bytes) for gpu in used.gpus),
        bars(used.cpu_over_time),
        clock_time(used.at) if used.at else "",
    )


def size(size_bytes: int) -> str:
    """`1.5 GiB`, or MiB where it is less than one."""
    return f"{size_bytes / _GIB:.1f} GiB" if size_bytes >= _GIB else f"{size_bytes / _MIB:.0f} MiB"


def bars(values: Sequence[float]) -> str:
    """The values as bars of eight heights, the highest value as the highest; many neighbours share a bar."""
    if not values:
        return ""
    width = math.ceil(len(values) / _BARS_MOST)
    means = [sum(part) / len(part) for at in range(0, len(values), width) if (part := values[at : at + width])]
    most = max(means)
    return "".join(_BARS[min(7, int(mean / most * 7.999))] if most > 0 else _BARS[0] for mean in means)


def _percent(gpu: GpuUse) -> str:
    return "?" if math.isnan(gpu.busy_percent) else f"{gpu.busy_percent:.0f} %"
