"""An index for gangs of one replica, of which there may be thousands in one cycle: for each shape the tightest row.

The answer is the same as that of `fit`, for a fraction of the time. Rows of a shape lie in a heap by what they have to
spare. A row that was touched is pushed again with what it has now, when the shape is next asked for; older entries of
it are known by their figure, which is not its present one, and dropped when they come up. Rows are only ever taken from
while the index lives. Building one costs as much as a few calls of `fit`, so the first few gangs of a shape go there.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from services.scheduler.domain.nodes import Request
from services.scheduler.domain.planning.columns import GPU_BITS, Columns, Shape, spare_of

_WORTH_IT: Final = 8


class Tightest:
    """Rows of one shape by what they have to spare."""

    def __init__(self, columns: Columns, pool: str, request: Request, seen: int) -> None:
        self._columns = columns
        self._request = request
        layout = columns.layout
        self._usable = layout.usable(pool)
        self._gpus = layout.gpus
        self._cpu_m = layout.cpu_m
        self._models = layout.devices_of(request.gpu_model)
        rows = np.flatnonzero(columns.count(pool, request).held)
        spare = columns.spare(request, rows)
        order = np.argsort(spare, kind="stable")
        self._entries: list[tuple[int, int]] = list(zip(spare[order].tolist(), rows[order].tolist(), strict=True))
        self._present: dict[int, int | None] = {}
        self.seen = seen

    def update(self, row: int) -> None:
        """Take over what the row has now."""
        spare = self._spare(row)
        self._present[row] = spare
        if spare is not None:
            heapq.heappush(self._entries, (spare, row))

    def first(self) -> int | None:
        """The tightest row that holds a replica."""
        while self._entries:
            spare, row = self._entries[0]
            if self._present.get(row, spare) == spare:
                return row
            heapq.heappop(self._entries)
        return None

    def _spare(self, row: int) -> int | None:
        """What the row has to spare, as `Columns.spare` has it; None where it holds no replica."""
        request, columns = self._request, self._columns
        cpu_m, memory_bytes = int(columns.cpu_m[row]), int(columns.memory_bytes[row])
        if cpu_m < request.cpu_m or memory_bytes < request.memory_bytes or columns.slots[row] < 1:
            return None
        if not self._usable[row]:
            return None
        idle = int(cpu_m == self._cpu_m[row])
        if not request.gpus:
            return spare_of((int(self._gpus[row]) << 1) + idle, cpu_m, memory_bytes)
        gpus: int = (int(columns.devices[row]) & int(self._models[row])).bit_count()
        return None if gpus < request.gpus else spare_of(gpus + (idle << GPU_BITS), cpu_m, memory_bytes)


class Singles:
    """The index over the columns of one cycle."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._asked: Counter[Shape] = Counter()
        self._heaps: dict[Shape, Tightest] = {}
        self._touched: list[int] = []

    def of(self, pool: str, request: Request) -> Tightest | None:
        """The rows of this shape, up to date; None while it is not asked for often enough to be indexed."""
        shape = (pool, request)
        heap = self._heaps.get(shape)
        if heap is None:
            self._asked[shape] += 1
            if self._asked[shape] < _WORTH_IT:
                return None
            heap = self._heaps[shape] = Tightest(self._columns, pool, request, len(self._touched))
        for row in set(self._touched[heap.seen :]):
            heap.update(row)
        heap.seen = len(self._touched)
        return heap

    def touch(self, rows: Iterable[int]) -> None:
        """These rows have less now."""
        if self._heaps:
            self._touched += rows
