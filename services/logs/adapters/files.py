"""Stored files in memory: a log, in part in segments and in part in the write-ahead log, and an event file."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from services.logs.adapters.disk import make_directories, sync_directory, sync_file, write_file_at
from services.logs.adapters.layout import Layout
from services.logs.adapters.segment_files import SegmentReader
from services.logs.adapters.segments import SegmentLog, Text
from services.logs.adapters.wal import Spot, WalFile
from services.logs.domain.extents import Cut, Extent, FramePlan, cuts_between, plan_frames
from services.logs.domain.frames import FRAME_BYTES
from services.logs.domain.lines import count_breaks, start_of_line
from services.logs.domain.marks import Mark, Marks, marks_of
from services.logs.domain.positions import Admission, Position
from shared.logs_wire import Chunk, FileRef, ReplicaRef

_CANNOT_BE_STORED: Final = frozenset({errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL})


class StoredLog:
    """A replica's log; changed in the event loop only, read anywhere."""

    def __init__(self, replica: ReplicaRef, segments: SegmentLog) -> None:
        stored = segments.snapshot
        self.replica = replica
        self.segments = segments
        self.position = Position(stored.generation, stored.base, stored.size, stored.ended)
        self.extents: list[Extent[Spot]] = []
        """Only ever added to, or exchanged as a whole: readers in other threads hold on to what they have."""

    @property
    def size(self) -> int:
        """Bytes of the log so far."""
        return self.position.size

    @property
    def unstored_bytes(self) -> int:
        """Bytes that are only in the write-ahead log."""
        return self.position.size - self.segments.snapshot.size

    @property
    def settled(self) -> bool:
        """Whether the log is complete and all of it is in sealed segments."""
        return self.position.ended and self.segments.snapshot.ended

    @property
    def wants_storing(self) -> bool:
        """Whether there is enough for a frame, or the end is not stored yet."""
        return self.unstored_bytes >= FRAME_BYTES or (self.position.ended and not self.settled)

    def take(self, admission: Admission, chunk: Chunk, spot: Spot) -> None:
        """What a durable record adds to the log."""
        if admission.data:
            skip = len(chunk.data) - len(admission.data)
            times = [millis for _, millis in chunk.times] or [self._last_ms()]
            extent = Extent(
                offset=self.position.size,
                length=len(admission.data),
                place=Spot(spot.file, spot.at + skip),
                generation=admission.position.generation,
                base=admission.position.base,
                first_ms=min(times),
                last_ms=max(times),
                marks=_marks(admission, chunk),
            )
            self.extents.append(extent)
        self.position = admission.position

    def read(self, start: int, stop: int) -> bytes:
        """Bytes of a range, as far as there are any; may take some milliseconds."""
        return b"".join(text for _, text in self.texts(start, stop))

    def texts(self, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """The same in pieces of a frame or less, each with its offset."""
        extents, stored = self.extents, self.segments.snapshot.size
        if start < stored:
            yield from self.segments.texts(start, min(stop, stored))
        for cut in cuts_between(extents, max(start, stored), stop):
            yield cut.extent.offset + cut.skip, _read_cut(cut)

    def marks_near(self, offset: int) -> tuple[Marks | None, int]:
        """Times of the bytes around an offset, those of its frame or of its chunk, and up to which offset they hold."""
        extents = self.extents
        if offset < self.segments.snapshot.size:
            found = self.segments.frame_at(offset)
            return (marks_of(found[1].frame), found[1].frame.stop) if found else (None, offset + 1)
        extent = next((each for each in extents if each.offset <= offset < each.stop), None)
        return (extent.times, extent.stop) if extent else (None, offset + 1)

    def time_of(self, offset: int) -> int | None:
        """When the byte at an offset was seen, in Unix milliseconds."""
        marks, _ = self.marks_near(offset)
        return marks.time_at(offset) if marks else None

    def offset_since(self, since_ms: int) -> int:
        """Where what was seen at a time or later begins; the size of the log where nothing was."""
        extents = self.extents
        stored = self.segments.offset_since(since_ms)
        if stored is not None:
            return stored
        found = next((extent for extent in extents if extent.last_ms >= since_ms), None)
        if found is None:
            return self.size
        at = found.times.offset_since(since_ms)
        return found.offset if at is None else at

    def offset_of_line(self, line: int) -> int:
        """Where a line begins, counted from 0; the size of the log where there are not so many."""
        start, lines = self.segments.place_of_line(line)
        after_cr = False
        for at, text in self.texts(start, self.size):
            breaks = count_breaks(text, after_cr=after_cr)
            if lines + breaks >= line:
                return at + start_of_line(text, line - lines, after_cr=after_cr)
            lines, after_cr = lines + breaks, text.endswith(b"\r")
        return self.size

    def is_at_hand(self, start: int) -> bool:
        """Whether reading from there on needs no segment."""
        return start >= self.segments.snapshot.size

    def store(self, *, everything: bool) -> None:
        """Move bytes into segments; may take long. `forget_stored` must follow, in the event loop."""
        start = self.segments.snapshot.size
        extents = [extent for extent in tuple(self.extents) if extent.stop > start]
        for plan in plan_frames(extents, start, everything=everything or self.position.ended):
            self.segments.append([_text_of(plan)])
        if self.position.ended and self.unstored_bytes == 0:
            self.segments.seal(ended=True)

    def forget_stored(self) -> None:
        """Let go of what is in segments now."""
        stored = self.segments.snapshot.size
        self.extents = [extent for extent in self.extents if extent.stop > stored]

    def renew(self) -> None:
        """Look at the segments anew, and go on from there where they have more; for those who do not write them."""
        self.segments.reload()
        stored = self.segments.snapshot
        if stored.size > self.position.size or (stored.ended and stored.size == self.position.size):
            self.position = Position(stored.generation, stored.base, stored.size, stored.ended)
        self.forget_stored()

    def refers_to(self, files: frozenset[WalFile]) -> bool:
        """Whether bytes of the log are only in these files."""
        return any(extent.place.file in files for extent in self.extents)

    def _last_ms(self) -> int:
        return self.extents[-1].last_ms if self.extents else 0


@dataclass(slots=True)
class EventFile:
    """An event file: its bytes are in place as soon as they are durable."""

    ref: FileRef
    layout: Layout
    position: Position
    unsynced: set[Path] = field(default_factory=set)
    new_names_in: set[Path] = field(default_factory=set)

    def write(self, generation: int, offset: int, data: bytes) -> None:
        """Put bytes where they belong; may be repeated. Where the path can have no such file they are dropped."""
        path = self.layout.event_file(self.ref, generation)
        try:
            self.new_names_in |= make_directories(path.parent)
            write_file_at(path, offset, data)
        except OSError as error:
            if error.errno not in _CANNOT_BE_STORED:
                raise
            return
        self.unsynced.add(path)
        self.new_names_in.add(path.parent)

    def sync(self) -> None:
        """Make everything durable."""
        for path in self.unsynced:
            sync_file(path)
        for directory in self.new_names_in:
            sync_directory(directory)
        self.unsynced.clear()
        self.new_names_in.clear()


def open_log(
    layout: Layout, replica: ReplicaRef, reader: SegmentReader, *, writable: bool = True, verify: bool = False
) -> StoredLog:
    """A log as it is on disk; `verify` after a crash."""
    return StoredLog(replica, SegmentLog(layout.segments(replica), reader, writable, verify))


def open_event_file(layout: Layout, ref: FileRef) -> EventFile:
    """An event file as it is on disk."""
    generation = layout.last_generation(ref)
    path = layout.event_file(ref, generation)
    size = path.stat().st_size if path.is_file() else 0
    return EventFile(ref, layout, Position(generation, size=size))


def _text_of(plan: FramePlan[Spot]) -> Text:
    data = b"".join(map(_read_cut, plan.cuts))
    return Text(data, plan.last.generation, plan.last.base, plan.first_ms, plan.last_ms, plan.marks)


def _marks(admission: Admission, chunk: Chunk) -> tuple[Mark, ...]:
    """Times of a chunk's bytes by their offsets in the log."""
    base = admission.position.base
    return tuple((base + offset, millis) for offset, millis in chunk.times)


def _read_cut(cut: Cut[Spot]) -> bytes:
    spot = cut.extent.place
    return spot.file.read(spot.at + cut.skip, cut.length)
