"""The column store: what is free on every node, in integer columns, and how many replicas of each shape that holds.

A *shape* is a request in a pool. How many replicas of a shape each row holds is counted once and kept; a row that was
touched since (its `changed` mark is newer than the count) is counted again when the shape is next asked for, and no
other. The counts of a copy start as those of its original, so that a plan works on a copy for the price of three
columns, and a cycle in which one gang ended counts a few rows.

Columns may be a part of the cluster: a run of rows, such as one topology domain. Rows are numbers within the part;
`first` is the first of them in the layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar

import numpy as np

from services.scheduler.domain.nodes import Device, Request, Room
from services.scheduler.domain.planning.layout import Bits, Flags, Ints, Layout
from shared.units import MIB

_SHAPES_MAX: Final = 512
_CPU_BITS: Final = 20
_MEMORY_BITS: Final = 24
_GPU_BITS: Final = 7
_CPU_MOST: Final = (1 << _CPU_BITS) - 1
_MEMORY_MOST: Final = (1 << _MEMORY_BITS) - 1


@dataclass(slots=True)
class _Count:
    """How many replicas of a shape each row holds, as of a generation. The array is never written to."""

    held: Ints
    generation: int


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
    devices: Bits
    changed: Ints
    generation: int = 0
    counts: dict[Shape, _Count] = field(default_factory=dict)
    original: Columns | None = None
    copied_at: int = 0

    @classmethod
    def empty(cls, layout: Layout) -> Self:
        """Nodes on which nothing runs."""
        changed = np.zeros(len(layout), dtype=np.int64)
        return cls(layout, 0, layout.cpu_m.copy(), layout.memory_bytes.copy(), layout.devices.copy(), changed)

    def __len__(self) -> int:
        return len(self.cpu_m)

    def copy(self) -> Columns:
        """The same, to be changed freely."""
        other = self.part(0, len(self))
        other.counts, other.original, other.copied_at = dict(self.counts), self, self.generation
        return other

    def part(self, start: int, stop: int) -> Columns:
        """A copy of some rows in sequence."""
        return Columns(
            self.layout,
            self.first + start,
            self.cpu_m[start:stop].copy(),
            self.memory_bytes[start:stop].copy(),
            self.devices[start:stop].copy(),
            self.changed[start:stop].copy(),
            self.generation,
        )

    # --- how much fits

    def holds(self, pool: str, request: Request) -> Ints:
        """How many replicas each row holds, were they alone there. Not to be written to."""
        shape = (pool, request)
        count = self.counts.get(shape)
        if count is None:
            count = self._counted(shape)
            if len(self.counts) >= _SHAPES_MAX:
                del self.counts[next(iter(self.counts))]
            self.counts[shape] = count
        if count.generation != self.generation:
            count = self.counts[shape] = self._recounted(shape, count)
        return count.held

    def _counted(self, shape: Shape) -> _Count:
        original = self.original
        if original is not None and original.generation == self.copied_at:
            # Counted there, it is there for the next copy, too.
            return _Count(original.holds(*shape), self.copied_at)
        return _Count(self._count(shape, slice(None)), self.generation)

    def _recounted(self, shape: Shape, count: _Count) -> _Count:
        rows = np.flatnonzero(self.changed > count.generation)
        held = count.held
        if rows.size:
            held = held.copy()
            held[rows] = self._count(shape, rows)
        return _Count(held, self.generation)

    def _count(self, shape: Shape, rows: Rows) -> Ints:
        pool, request = shape
        held = np.minimum(self.cpu_m[rows] // request.cpu_m, self.memory_bytes[rows] // request.memory_bytes)
        if request.gpus:
            held = np.minimum(held, self.free_gpus(request.gpu_model, rows) // request.gpus)
        usable = self._here(self.layout.members(pool) & self.layout.ready)[rows]
        counts: Ints = np.where(usable, np.maximum(held, 0), 0)
        return counts

    def free_gpus(self, model: str, rows: Rows = slice(None)) -> Ints:
        """How many devices of this model are free; of any model where none is given."""
        free = self.devices[rows] & self._here(self.layout.devices_of(model))[rows]
        return _ones(free)

    def _here(self, column: Column) -> Column:
        """The part of one of the layout's columns that belongs to these rows."""
        return column[self.first : self.first + len(self)]

    # --- which is the tightest

    def spare(self, request: Request, rows: Rows) -> Ints:
        """What the rows have to spare, as one number to compare: the least is the best fit.

        Nodes on which nothing runs come last, so that they stay whole for gangs that need whole nodes; then counts what
        is scarce: free GPUs, or for work without GPUs those that the node has at all; then cores, then memory.
        """
        gpus = self.free_gpus(request.gpu_model, rows) if request.gpus else self._all_gpus(rows)
        cpu_m = np.clip(self.cpu_m[rows], 0, _CPU_MOST)
        memory_mib = np.clip(self.memory_bytes[rows] // MIB, 0, _MEMORY_MOST)
        scarce = (gpus << 1) | self._idle(rows) if not request.gpus else gpus | (self._idle(rows) << _GPU_BITS)
        spare: Ints = (scarce << (_CPU_BITS + _MEMORY_BITS)) | (cpu_m << _MEMORY_BITS) | memory_mib
        return spare

    def _all_gpus(self, rows: Rows) -> Ints:
        return _ones(self._here(self.layout.devices)[rows])

    def _idle(self, rows: Rows) -> Ints:
        same: Flags = self.cpu_m[rows] == self._here(self.layout.cpu_m)[rows]
        same &= self.memory_bytes[rows] == self._here(self.layout.memory_bytes)[rows]
        same &= self.devices[rows] == self._here(self.layout.devices)[rows]
        idle: Ints = same.astype(np.int64)
        return idle

    # --- what is taken and given back

    def take(self, request: Request, rows: Ints, counts: Ints) -> Bits:
        """Put so many replicas on each of these different rows; gives the devices that they get there."""
        taken = self.devices_for(request, rows, counts)
        self.shift(rows, -counts * request.cpu_m, -counts * request.memory_bytes)
        self.devices[rows] &= ~taken
        return taken

    def devices_for(self, request: Request, rows: Ints, counts: Ints) -> Bits:
        """The devices that so many replicas would get on each of these rows."""
        free = self.devices[rows] & self._here(self.layout.devices_of(request.gpu_model))[rows]
        return _lowest(free, counts * request.gpus)

    def shift(self, rows: Ints, cpu_m: Ints, memory_bytes: Ints) -> None:
        """Change what these different rows have free of cores and memory."""
        self.cpu_m[rows] += cpu_m
        self.memory_bytes[rows] += memory_bytes
        self.touch(rows)

    def put(self, rows: Ints, cpu_m: Sequence[int], memory_bytes: Sequence[int], devices: Sequence[int]) -> None:
        """Set what these different rows have free."""
        self.cpu_m[rows] = cpu_m
        self.memory_bytes[rows] = memory_bytes
        self.devices[rows] = np.array(devices, dtype=np.uint64)
        self.touch(rows)

    def touch(self, rows: Ints | slice) -> None:
        """Have these rows counted again."""
        self.generation += 1
        self.changed[rows] = self.generation

    # --- for people

    def room(self, row: int) -> Room:
        """What is free on one row, as a value of its own."""
        node, bits = self.layout.nodes[self.first + row], int(self.devices[row])
        devices: Iterable[Device] = (device for bit, device in enumerate(node.devices) if bits >> bit & 1)
        return Room(node, int(self.cpu_m[row]), int(self.memory_bytes[row]), tuple(devices))


def _ones(bits: Bits) -> Ints:
    """How many bits of each number are set."""
    count: Ints = np.bitwise_count(bits).astype(np.int64)
    return count


def _lowest(free: Bits, counts: Ints) -> Bits:
    """The lowest so many bits of each number."""
    if not counts.any():
        return np.zeros_like(free)
    left, taken = free.copy(), np.zeros_like(free)
    for number in range(int(counts.max())):
        bit = np.where(counts > number, left & (~left + np.uint64(1)), np.uint64(0))
        taken |= bit
        left ^= bit
    return taken
