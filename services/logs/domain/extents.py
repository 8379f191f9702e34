"""The bytes of a log that are durable in the write-ahead log and not yet in a segment, and how they become frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.logs.domain.frames import FRAME_BYTES
from services.logs.domain.marks import Mark, Marks, thinned

Place = TypeVar("Place")


@dataclass(frozen=True, slots=True)
class Extent(Generic[Place]):
    """Some bytes of a log, where they are, and the generation that they are of."""

    offset: int
    length: int
    place: Place
    generation: int
    base: int
    first_ms: int
    last_ms: int
    marks: tuple[Mark, ...] = ()

    @property
    def stop(self) -> int:
        """Offset behind the last byte."""
        return self.offset + self.length

    @property
    def times(self) -> Marks:
        """Its marks; one at its beginning where it came without any."""
        return Marks(self.marks or ((self.offset, self.first_ms),))

    def marks_between(self, start: int, stop: int) -> Iterator[Mark]:
        """Times of the bytes in a range, the first at its beginning."""
        marks = self.times
        yield start, marks.time_at(start)
        yield from (mark for mark in marks.each if start < mark[0] < stop)


@dataclass(frozen=True, slots=True)
class Cut(Generic[Place]):
    """The part of an extent from `skip` on, `length` bytes long."""

    extent: Extent[Place]
    skip: int
    length: int

    @property
    def marks(self) -> Iterator[Mark]:
        """Times of its bytes."""
        start = self.extent.offset + self.skip
        return self.extent.marks_between(start, start + self.length)


@dataclass(frozen=True, slots=True)
class FramePlan(Generic[Place]):
    """What goes into one frame."""

    cuts: tuple[Cut[Place], ...]

    @property
    def last(self) -> Extent[Place]:
        """The extent that the frame ends in."""
        return self.cuts[-1].extent

    @property
    def first_ms(self) -> int:
        """Time of the earliest bytes."""
        return min(cut.extent.first_ms for cut in self.cuts)

    @property
    def last_ms(self) -> int:
        """Time of the latest bytes."""
        return max(cut.extent.last_ms for cut in self.cuts)

    @property
    def marks(self) -> Marks:
        """Times within the frame."""
        return thinned(mark for cut in self.cuts for mark in cut.marks)


def cuts_between(extents: Sequence[Extent[Place]], start: int, stop: int) -> Iterator[Cut[Place]]:
    """The parts of ascending extents that lie in a range."""
    for extent in extents:
        first, last = max(start, extent.offset), min(stop, extent.stop)
        if first < last:
            yield Cut(extent, first - extent.offset, last - first)


def plan_frames(extents: Sequence[Extent[Place]], start: int, *, everything: bool) -> list[FramePlan[Place]]:
    """Frames for the bytes from `start` on: full ones, and with `everything` what is left over, too."""
    stop = extents[-1].stop if extents else start
    end = stop if everything else start + (stop - start) // FRAME_BYTES * FRAME_BYTES
    bounds = [(at, min(at + FRAME_BYTES, end)) for at in range(start, end, FRAME_BYTES)]
    return [FramePlan(tuple(cuts_between(_near(extents, first, last), first, last))) for first, last in bounds]


def _near(extents: Sequence[Extent[Place]], start: int, stop: int) -> Sequence[Extent[Place]]:
    """The extents that touch a range, without looking at all of them."""
    low = _first(extents, start)
    high = _first(extents, stop)
    return extents[low : high + 1]


def _first(extents: Sequence[Extent[Place]], offset: int) -> int:
    """Index of the extent that holds an offset, or of the last one."""
    low, high = 0, max(len(extents) - 1, 0)
    while low < high:
        middle = (low + high) // 2
        if extents[middle].stop > offset:
            high = middle
        else:
            low = middle + 1
    return low
