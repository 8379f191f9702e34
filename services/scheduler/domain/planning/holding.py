"""What gangs hold, in the terms of the column store, and what columns look like once some of them have ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import Place
from services.scheduler.domain.planning.layout import Bits, Flags, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """What one gang holds: so much on each of these different rows."""

    rows: Ints
    cpu_m: Ints
    memory_bytes: Ints
    slots: Ints
    devices: Bits


def holding_of(places: Iterable[Place]) -> Holding:
    """What a gang with these places holds."""
    parts = [
        (row, count * place.role.request.cpu_m, count * place.role.request.memory_bytes, count, devices)
        for place in places
        for row, count, devices in zip(place.rows, place.counts, place.devices, strict=True)
    ]
    return holding(parts)


def holding(parts: Iterable[tuple[int, int, int, int, int]]) -> Holding:
    """What is held by parts of row, millicores, bytes, slots and devices, where rows may stand several times."""
    on_row: dict[int, tuple[int, int, int, int]] = {}
    for row, cpu_m, memory_bytes, slots, devices in parts:
        known = on_row.get(row, (0, 0, 0, 0))
        on_row[row] = known[0] + cpu_m, known[1] + memory_bytes, known[2] + slots, known[3] | devices
    amounts = list(on_row.values())
    return Holding(
        np.array(list(on_row), dtype=np.int64),
        np.array([cpu_m for cpu_m, _, _, _ in amounts], dtype=np.int64),
        np.array([memory_bytes for _, memory_bytes, _, _ in amounts], dtype=np.int64),
        np.array([slots for _, _, slots, _ in amounts], dtype=np.int64),
        np.array([devices for _, _, _, devices in amounts], dtype=np.uint64),
    )


class Releases:
    """Holdings in a given order, and the columns after the first so many of them have been given back."""

    def __init__(self, free: Columns, holdings: Sequence[Holding]) -> None:
        self._free = free
        self._stops = np.cumsum([len(each.rows) for each in holdings], dtype=np.int64)
        none = (np.zeros(0, dtype=np.int64),)
        self._rows = np.concatenate([each.rows for each in holdings] or none)
        self._cpu_m = np.concatenate([each.cpu_m for each in holdings] or none)
        self._memory_bytes = np.concatenate([each.memory_bytes for each in holdings] or none)
        self._slots = np.concatenate([each.slots for each in holdings] or none)
        self._devices = np.concatenate([each.devices for each in holdings] or none).astype(np.uint64)

    def __len__(self) -> int:
        return len(self._stops)

    def after(self, count: int) -> Columns:
        """What is free once the first so many are gone."""
        chosen = np.arange(len(self._rows)) < (self._stops[count - 1] if count else 0)
        return self._with(chosen)

    def without(self, kept: Iterable[int]) -> Columns:
        """What is free once all but these are gone."""
        chosen = np.ones(len(self._rows), dtype=np.bool_)
        starts = [0, *self._stops.tolist()]
        for number in kept:
            chosen[starts[number] : starts[number + 1]] = False
        return self._with(chosen)

    def _with(self, chosen: Flags) -> Columns:
        rows = self._rows[chosen]
        columns = self._free.part(0, len(self._free))
        np.add.at(columns.cpu_m, rows, self._cpu_m[chosen])
        np.add.at(columns.memory_bytes, rows, self._memory_bytes[chosen])
        np.add.at(columns.slots, rows, self._slots[chosen])
        np.bitwise_or.at(columns.devices, rows, self._devices[chosen])
        return columns
