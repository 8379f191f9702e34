"""The column store: what is free on every node, in integer columns, and how many replicas of each shape that holds.

A *shape* is a request in a pool. How many replicas of a shape each row holds is counted once and kept; a row that was
touched since (its `changed` mark is newer than the count) is counted again when the shape is next asked for, and no
other. The counts of a copy start as those of its original, so that a plan works on a copy for the price of four
columns, and a cycle in which one gang ended counts a few rows.

Columns may be a part of the cluster: a run of rows, such as one topology domain. Rows are numbers within the part;
`first` is the first of them in the layout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Final, Self, TypeVar

import numpy as np

from services.scheduler.domain.gang import Level
from services.scheduler.domain.nodes import Device, Request, Room
from services.scheduler.domain.planning.layout import Bits, Flags, Ints, Layout

_SHAPES_MAX: Final = 512
_RECENT_MAX: Final = 64
_FEW: Final = 256
_MIB_BITS: Final = 20
_CPU_BITS: Final = 20
_MEMORY_BITS: Final = 24
GPU_BITS: Final = 7
_CPU_MOST: Final = (1 << _CPU_BITS) - 1
_MEMORY_MOST: Final = (1 << _MEMORY_BITS) - 1


@dataclass(slots=True)
class Count:
    """How many replicas of a shape each row holds, and all rows, leaves and spines together, as of a generation.

    `most` is no less than any row holds. A count that is not `owned` is also that of another copy of the columns.
    """

    held: Ints
    generation: int
    total: int
    most: int
    owned: bool = True
    sums: dict[Level, Ints] = field(default_factory=dict)

    def copy(self) -> Count:
        """The same, to be changed freely."""
        return replace(
            self, held=self.held.copy(), owned=True, sums={at: sums.copy() for at, sums in self.sums.items()}
        )


Column = TypeVar("Column", Flags, Bits, Ints)
Rows = slice | Ints
Shape = tuple[str, Request]


@dataclass(slots=True, eq=False)
class Columns:
    """What is free, by row."""

    layout: Layout
    first: int
    cpu_m: Ints
    memory_bytes: Ints
    slots: Ints
    devices: Bits
    changed: Ints
    generation: int = 0
    counts: dict[Shape, Count] = field(default_factory=dict)
    recent: deque[tuple[int, Ints | int]] = field(default_factory=lambda: deque(maxlen=_RECENT_MAX))
    original: Columns | None = None
    copied_at: int = 0

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """Nodes on which nothing runs."""
        changed = np.zeros(len(layout), dtype=np.int64)
        amounts = layout.cpu_m.copy(), layout.memory_bytes.copy(), layout.slots.copy()
        return cls(layout, 0, *amounts, layout.devices.copy(), changed)

    def __len__(self) -> int:
        return len(self.cpu_m)

    def copy(self) -> Columns:
        """The same, to be changed freely."""
        other = self.part(0, len(self))
        other.original, other.copied_at = self, self.generation
        return other

    def part(self, start: int, stop: int) -> Columns:
        """A copy of some rows in sequence."""
        return Columns(
            self.layout,
            self.first + start,
            self.cpu_m[start:stop].copy(),
            self.memory_bytes[start:stop].copy(),
            self.slots[start:stop].copy(),
            self.devices[start:stop].copy(),
            self.changed[start:stop].copy(),
            self.generation,
        )

    # --- how much fits

    def holds(self, pool: str, request: Request) -> Ints:
        """How many replicas each row holds, were they alone there. Good until the next change; not to be written to."""
        return self.count(pool, request).held

    def count(self, pool: str, request: Request) -> Count:
        """How many replicas each row holds, and all together."""
        shape = (pool, request)
        count = self.counts.get(shape)
        if count is None:
            count = self._counted(shape)
            if len(self.counts) >= _SHAPES_MAX:
                del self.counts[next(iter(self.counts))]
            self.counts[shape] = count
        if count.generation != self.generation:
            count = self.counts[shape] = self._recounted(shape, count)
        return count

    def sums(self, count: Count, level: Level) -> Ints:
        """How many replicas each domain of the level holds."""
        if level not in count.sums:
            starts = self.layout.domains[level].starts
            count.sums[level] = np.add.reduceat(count.held, starts) if len(starts) else count.held
        return count.sums[level]

    def _counted(self, shape: Shape) -> Count:
        original = self.original
        if original is not None and original.generation == self.copied_at:
            # Counted there, it is there for the next copy, too.
            return replace(original.count(*shape), owned=False)
        held = self._count(shape, slice(None))
        return Count(held, self.generation, int(held.sum()), int(held.max(initial=0)))

    def _recounted(self, shape: Shape, count: Count) -> Count:
        rows = self._changed_since(count.generation)
        if rows.size:
            count = count if count.owned else count.copy()
            held = self._count(shape, rows)
            more = held - count.held[rows]
            count.held[rows] = held
            count.total += int(more.sum())
            count.most = max(count.most, int(held.max()))
            for level, sums in count.sums.items():
                np.add.at(sums, self.layout.number_of[level][rows], more)
        count.generation = self.generation
        return count

    def _changed_since(self, generation: int) -> Ints:
        """Rows that were touched after that generation, each once."""
        if not self.recent or self.recent[0][0] > generation + 1:
            return np.flatnonzero(self.changed > generation)
        newer = np.hstack(
            [rows for at, rows in takewhile(lambda touched: touched[0] > generation, reversed(self.recent))]
        )
        return np.unique(newer) if len(newer) < _FEW else np.flatnonzero(self.changed > generation)

    def _count(self, shape: Shape, rows: Rows) -> Ints:
        pool, request = shape
        held = np.minimum(self.cpu_m[rows] // request.cpu_m, self.memory_bytes[rows] // request.memory_bytes)
        held = np.minimum(held, self.slots[rows])
        if request.gpus:
            held = np.minimum(held, self.free_gpus(request.gpu_model, rows) // request.gpus)
        # Over-committed rows come out below nothing.
        counts: Ints = np.maximum(held, 0) * self._here(self.layout.usable(pool))[rows]
        return counts

    def free_gpus(self, model: str, rows: Rows = slice(None)) -> Ints:
        """How many devices of this model are free; of any model where none is given."""
        return _ones(self.devices[rows] & self._here(self.layout.devices_of(model))[rows])

    def _here(self, column: Column) -> Column:
        """The part of one of the layout's columns that belongs to these rows."""
        return column[self.first : self.first + len(self)]

    # --- which is the tightest

    def spare(self, request: Request, rows: Rows) -> Ints:
        """What the rows have to spare, as one number to compare: the least is the best fit.

        Nodes on which nothing runs come last, so that they stay whole for gangs that need whole nodes; then counts what
        is scarce: free GPUs, or for work without GPUs those that the node has at all; then cores, then memory.
        """
        idle = self.cpu_m[rows] == self._here(self.layout.cpu_m)[rows]
        if request.gpus:
            scarce = self.free_gpus(request.gpu_model, rows) + (idle.astype(np.int64) << GPU_BITS)
        else:
            scarce = (self._here(self.layout.gpus)[rows] << 1) + idle
        spare: Ints = scarce << (_CPU_BITS + _MEMORY_BITS)
        spare += np.minimum(self.cpu_m[rows], _CPU_MOST) << _MEMORY_BITS
        spare += np.minimum(self.memory_bytes[rows] >> _MIB_BITS, _MEMORY_MOST)
        return spare

    # --- what is taken and given back

    def take(self, request: Request, rows: Ints, counts: Ints, devices: Bits | None = None) -> Bits:
        """Put so many replicas on each of these different rows; gives the devices that they get there."""
        taken = self.devices_for(request, rows, counts) if devices is None else devices
        self.cpu_m[rows] -= counts * request.cpu_m
        self.memory_bytes[rows] -= counts * request.memory_bytes
        self.slots[rows] -= counts
        if request.gpus:
            self.devices[rows] &= ~taken
        self.touch(rows)
        return taken

    def devices_for(self, request: Request, rows: Ints, counts: Ints) -> Bits:
        """The devices that so many replicas would get on each of these rows."""
        if not request.gpus:
            return np.zeros(len(rows), dtype=np.uint64)
        free = self.devices[rows] & self._here(self.layout.devices_of(request.gpu_model))[rows]
        return lowest(free, counts * request.gpus)

    def take_one(self, request: Request, row: int, count: int, devices: int) -> None:
        """Put so many replicas with these devices on one row."""
        self.cpu_m[row] -= count * request.cpu_m
        self.memory_bytes[row] -= count * request.memory_bytes
        self.slots[row] -= count
        if devices:
            self.devices[row] = int(self.devices[row]) & ~devices
        self.generation += 1
        self.changed[row] = self.generation
        self.recent.append((self.generation, row))

    def devices_for_one(self, request: Request, row: int) -> int:
        """The devices that one replica would get on this row."""
        if not request.gpus:
            return 0
        free, taken = int(self.devices[row]) & int(self.layout.devices_of(request.gpu_model)[self.first + row]), 0
        for _ in range(request.gpus):
            lowest = free & -free
            taken |= lowest
            free ^= lowest
        return taken

    def put(
        self,
        rows: Ints,
        cpu_m: Sequence[int],
        memory_bytes: Sequence[int],
        slots: Sequence[int],
        devices: Sequence[int],
    ) -> None:
        """Set what these different rows have free."""
        self.cpu_m[rows] = cpu_m
        self.memory_bytes[rows] = memory_bytes
        self.slots[rows] = slots
        self.devices[rows] = np.array(devices, dtype=np.uint64)
        self.touch(rows)

    def lower(self, rows: Ints | slice, other: Columns) -> None:
        """On these different rows, have no more than the other columns have."""
        self.cpu_m[rows] = np.minimum(self.cpu_m[rows], other.cpu_m[rows])
        self.memory_bytes[rows] = np.minimum(self.memory_bytes[rows], other.memory_bytes[rows])
        self.slots[rows] = np.minimum(self.slots[rows], other.slots[rows])
        self.devices[rows] &= other.devices[rows]
        self.touch(np.arange(len(self))[rows])

    def touch(self, rows: Ints) -> None:
        """Have these different rows counted again."""
        self.generation += 1
        self.changed[rows] = self.generation
        self.recent.append((self.generation, rows))

    # --- for people

    def room(self, row: int) -> Room:
        """What is free on one row, as a value of its own."""
        node, bits = self.layout.nodes[self.first + row], int(self.devices[row])
        devices: Iterable[Device] = (device for bit, device in enumerate(node.devices) if bits >> bit & 1)
        return Room(node, int(self.cpu_m[row]), int(self.memory_bytes[row]), tuple(devices), int(self.slots[row]))


def spare_of(scarce: int, cpu_m: int, memory_bytes: int) -> int:
    """The number of `Columns.spare` for one row."""
    memory_mib = min(memory_bytes >> _MIB_BITS, _MEMORY_MOST)
    return (scarce << (_CPU_BITS + _MEMORY_BITS)) + (min(cpu_m, _CPU_MOST) << _MEMORY_BITS) + memory_mib


def _ones(bits: Bits) -> Ints:
    """How many bits of each number are set."""
    count: Ints = np.bitwise_count(bits).astype(np.int64)
    return count


def lowest(free: Bits, counts: Ints) -> Bits:
    """The lowest so many bits of each number."""
    taken = np.where(np.bitwise_count(free) == counts, free, np.uint64(0))
    left, more = free ^ taken, np.where(taken == free, 0, counts)
    for number in range(int(more.max(initial=0))):
        bit = np.where(more > number, left & (~left + np.uint64(1)), np.uint64(0))
        taken |= bit
        left ^= bit
    return taken
