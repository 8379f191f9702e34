"""The stored part of one log: segment files in a directory, written at the end, read anywhere.

The last segment grows until it is sealed (`services.logs.domain.frames`); the others are sealed, are packed anew
(`compaction`) and may then lie in an archive. What is known of the log is an immutable `Snapshot`, exchanged as a
whole, so that readers in other threads see a consistent one; where a file of theirs was replaced meanwhile, they take
the newer snapshot.

After a crash the last segment is walked frame by frame, checksums included, and cut off behind the last whole frame;
the write-ahead log has everything behind it.
"""

from __future__ import annotations

import os
import threading
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from services.logs.adapters.disk import make_directories, sync_directory, sync_file, write_file_at
from services.logs.adapters.packing import pack_fast
from services.logs.adapters.segment_files import (
    Segment,
    SegmentName,
    SegmentReader,
    in_order,
    read_footer,
    segment_named,
    walk,
)
from services.logs.domain.frames import Frame, Placed, encode_footer, encode_header
from services.logs.domain.lines import count_breaks
from services.logs.domain.marks import Marks, encode_marks, marks_of

SEGMENT_BYTES: Final = 8 * 1024 * 1024
_TRIES: Final = 5

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is known of the stored part of a log."""

    segments: tuple[Segment, ...] = ()
    size: int = 0
    lines: int = 0
    ends_with_cr: bool = False
    generation: int = 1
    base: int = 0
    ended: bool = False

    def sealed(self) -> bool:
        """Whether the last segment does not grow any more."""
        return not self.segments or self.segments[-1].frames is None


@dataclass(frozen=True, slots=True)
class Text:
    """Bytes for one frame, and what its header says of them."""

    data: bytes
    generation: int
    base: int
    first_ms: int
    last_ms: int
    marks: Marks | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where segments of a log are: its directory, and the beginning of its keys in the archive."""

    directory: Path
    key: str = ""


@dataclass(slots=True)
class SegmentLog:
    """One log's segments; one thread at a time writes, any number read. `writable` is false for who only looks."""

    place: Place
    reader: SegmentReader = field(default_factory=SegmentReader)
    writable: bool = True
    verify: bool = False
    unsynced: bool = False
    snapshot: Snapshot = field(init=False)
    _new_names_in: set[Path] = field(default_factory=set)
    _exchange: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.snapshot = _load(self, verify=self.verify)

    @property
    def directory(self) -> Path:
        """Where its files are."""
        return self.place.directory

    @property
    def has_loose_ends(self) -> bool:
        """Whether finished segments wait for being packed anew, or for the archive."""
        finished = self.snapshot.segments if self.snapshot.sealed() else self.snapshot.segments[:-1]
        to_archive = self.reader.archive is not None
        return any(each.name.stop is None or (to_archive and not each.is_archived) for each in finished)

    def append(self, texts: Sequence[Text]) -> None:
        """Store the texts as frames; they survive the end of the process now, a loss of power after `sync`."""
        for text in texts:
            if self.snapshot.sealed():
                self._begin_segment()
            frame, packed = _packed(self.snapshot, text)
            segment = self.snapshot.segments[-1]
            at = _end_of(segment)
            write_file_at(segment.path, at, encode_header(frame) + packed)
            self.unsynced = True
            self._add(Placed(frame, at + frame.header_bytes))
            if at + len(packed) >= SEGMENT_BYTES:
                self.seal(ended=False)

    def seal(self, *, ended: bool) -> None:
        """Finish the growing segment; with `ended` the log is complete, which an empty segment may have to say."""
        if self.snapshot.sealed():
            if not ended or self.snapshot.ended:
                return
            self._begin_segment()
        segment = self.snapshot.segments[-1]
        if not ended:
            self.sync()
        frames = segment.frames or ()
        footer = encode_footer(frames, [b""] * len(frames), ended=ended)
        write_file_at(segment.path, _end_of(segment), footer)
        if segment.path.stat().st_size != _end_of(segment) + len(footer):  # a write may have failed in the middle
            os.truncate(segment.path, _end_of(segment) + len(footer))
        self.unsynced = True
        with self._exchange:
            sealed = (*self.snapshot.segments[:-1], replace(segment, frames=None))
            self.snapshot = replace(self.snapshot, segments=sealed, ended=ended)

    def sync(self) -> None:
        """Make everything durable."""
        for directory in self.sync_content():
            sync_directory(directory)
        self.synced()

    def sync_content(self) -> set[Path]:
        """Make the content durable; gives the directories whose names have to follow before `synced` is told."""
        if not (self.unsynced and self.snapshot.segments):
            return set()
        last = self.snapshot.segments[-1]
        if not last.is_archived and last.name.stop is None:
            sync_file(last.path)
        return set(self._new_names_in)

    def synced(self) -> None:
        """Everything is durable."""
        self._new_names_in.clear()
        self.unsynced = False

    def exchange(self, old: Sequence[Segment], new: Segment) -> None:
        """Let one segment stand for some that hold the same bytes."""
        gone = set(old)
        with self._exchange:
            segments = self.snapshot.segments
            first = next(number for number, segment in enumerate(segments) if segment in gone)
            kept = [segment for segment in segments if segment not in gone]
            self.snapshot = replace(self.snapshot, segments=(*kept[:first], new, *kept[first:]))

    def reload(self) -> None:
        """Look at the files anew; for those who do not write them."""
        self.snapshot = _load(self, verify=False)

    def read(self, start: int, stop: int) -> bytes:
        """Bytes of the stored part of the log, as far as it has them."""
        return b"".join(text for _, text in self.texts(start, stop))

    def texts(self, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """The same frame by frame, each with its offset."""
        at = start
        while at < min(stop, self.snapshot.size):
            text = self.again(partial(self._text_at, at, stop))
            if not text:
                return
            yield at, text
            at += len(text)

    def segment_at(self, offset: int) -> Segment | None:
        """The segment that holds an offset."""
        return _last_at(self.snapshot.segments, offset)

    def frame_at(self, offset: int) -> tuple[Segment, Placed] | None:
        """The frame that holds an offset, and its segment."""
        return self.again(lambda: self._frame_at(offset))

    def again(self, work: Callable[[], Result]) -> Result:
        """Do work that reads segments; where one of them was replaced meanwhile, with what replaced it."""
        for _ in range(_TRIES):
            try:
                return work()
            except FileNotFoundError:
                if not self.writable:
                    self.reload()
        return work()

    def _frame_at(self, offset: int) -> tuple[Segment, Placed] | None:
        segment = _last_at(self.snapshot.segments, offset)
        frames = self.reader.frames(segment) if segment else ()
        found = bisect_right(frames, offset, key=lambda placed: placed.frame.offset) - 1
        if segment is None or found < 0 or frames[found].frame.stop <= offset:
            return None
        return segment, frames[found]

    def packed_frame_at(self, offset: int) -> tuple[int, bytes] | None:
        """Length and packed bytes of the frame that begins at an offset; None where none does, or it was replaced."""
        try:
            found = self.frame_at(offset)
            if found is None or found[1].frame.offset != offset:
                return None
            segment, placed = found
            with self.reader.opened(segment) as file:
                return placed.frame.length, file.read(placed.at, placed.frame.packed_bytes)
        except FileNotFoundError:
            return None

    def offset_since(self, since_ms: int) -> int | None:
        """Where what was seen at a time or later begins; None where nothing stored was.

        Segments are taken for ordered by time, as they are unless a clock was set back.
        """
        return self.again(lambda: self._offset_since(since_ms))

    def _offset_since(self, since_ms: int) -> int | None:
        segments = self.snapshot.segments
        first = bisect_left(segments, since_ms, key=self._last_ms)
        for segment in segments[first:]:
            for placed in self.reader.frames(segment):
                if placed.frame.last_ms >= since_ms:
                    marks = marks_of(placed.frame)
                    at = marks.offset_since(since_ms)
                    return marks.each[-1][0] if at is None else at
        return None

    def place_of_line(self, line: int) -> tuple[int, int]:
        """Offset to look for a line from, and the breaks before it: the beginning of the frame that holds it."""
        return self.again(lambda: self._place_of_line(line))

    def _place_of_line(self, line: int) -> tuple[int, int]:
        segments = self.snapshot.segments
        found = bisect_left(segments, line, key=lambda segment: segment.line) - 1
        frames = self.reader.frames(segments[found]) if found >= 0 else ()
        place = bisect_left(frames, line, key=lambda placed: placed.frame.first_line) - 1
        return (frames[place].frame.offset, frames[place].frame.first_line) if place >= 0 else (0, 0)

    def _last_ms(self, segment: Segment) -> int:
        frames = self.reader.frames(segment)
        return frames[-1].frame.last_ms if frames else 0

    def _text_at(self, at: int, stop: int) -> bytes:
        found = self._frame_at(at)
        if found is None:
            return b""
        segment, placed = found
        data = self.reader.text(segment, placed)
        if (at, placed.frame.length) == (placed.frame.offset, min(stop - at, placed.frame.length)):
            return data
        return data[at - placed.frame.offset : stop - placed.frame.offset]

    def _begin_segment(self) -> None:
        snapshot = self.snapshot
        self._new_names_in |= {self.directory, *make_directories(self.directory)}
        name = SegmentName(snapshot.size, snapshot.lines)
        path = self.directory / name.text
        write_file_at(path, 0, b"")
        os.truncate(path, 0)  # one that only said that the log is complete has the same name
        with self._exchange:
            others = (segment for segment in self.snapshot.segments if segment.name != name)
            segments = (*others, Segment(name, path, ()))
            self.snapshot = replace(self.snapshot, segments=segments, ended=False)

    def _add(self, placed: Placed) -> None:
        with self._exchange:
            *others, last = self.snapshot.segments
            grown = replace(last, frames=(*(last.frames or ()), placed))
            self.snapshot = _at_end_of(replace(self.snapshot, segments=(*others, grown)), placed.frame)


def _last_at(segments: Sequence[Segment], offset: int) -> Segment | None:
    """The segment in which an offset must be; of several that begin there the last one that is not empty."""
    found = bisect_right(segments, offset, key=lambda segment: segment.offset) - 1
    return segments[found] if found >= 0 else None


def _packed(snapshot: Snapshot, text: Text) -> tuple[Frame, bytes]:
    return packed_frame(text, snapshot.size, snapshot.lines, pack_fast(text.data), after_cr=snapshot.ends_with_cr)


def packed_frame(text: Text, offset: int, line: int, packed: bytes, *, after_cr: bool) -> tuple[Frame, bytes]:
    """The frame of a text that begins at an offset and behind so many line breaks."""
    frame = Frame(
        generation=text.generation,
        base=text.base,
        offset=offset,
        length=len(text.data),
        first_line=line,
        breaks=count_breaks(text.data, after_cr=after_cr),
        ends_with_cr=text.data.endswith(b"\r"),
        first_ms=text.marks.each[0][1] if text.marks else text.first_ms,
        last_ms=text.last_ms,
        packed_bytes=len(packed),
        packed_crc=zlib.crc32(packed),
        marks=encode_marks(text.marks) if text.marks else b"",
    )
    return frame, packed


def _at_end_of(snapshot: Snapshot, frame: Frame) -> Snapshot:
    return replace(
        snapshot,
        size=frame.stop,
        lines=frame.stop_line,
        ends_with_cr=frame.ends_with_cr,
        generation=frame.generation,
        base=frame.base,
    )


def _end_of(segment: Segment) -> int:
    return segment.frames[-1].at + segment.frames[-1].frame.packed_bytes if segment.frames else 0


def _load(log: SegmentLog, *, verify: bool) -> Snapshot:
    """What the directory names; the last segment is put in order where it was being written."""
    segments, replaced = in_order(find_segments(log.place))
    if log.writable:
        for segment in replaced:
            if not segment.is_archived:
                segment.path.unlink(missing_ok=True)
    if not segments:
        return Snapshot()
    *others, last = segments
    if last.name.stop is None:
        return _load_growing(log, tuple(others), last, verify=verify)
    footer = log.reader.footer(last)
    snapshot = Snapshot(segments, size=last.name.stop, lines=last.line, ended=bool(footer and footer.ended))
    return _at_end_of(snapshot, footer.frames[-1].frame) if footer and footer.frames else snapshot


def _load_growing(log: SegmentLog, others: tuple[Segment, ...], last: Segment, *, verify: bool) -> Snapshot:
    with log.reader.opened(last) as file:
        footer = read_footer(file)
        if footer and verify and walk(file, verify=True) != footer.frames:
            footer = None
        frames = footer.frames if footer else walk(file, verify=verify)
        size = file.size
    if not footer:
        last = replace(last, frames=frames)
        if log.writable and size != _end_of(last):
            os.truncate(last.path, _end_of(last))
    snapshot = Snapshot((*others, last), size=last.offset, lines=last.line, ended=bool(footer and footer.ended))
    if frames:
        return _at_end_of(snapshot, frames[-1].frame)
    before = log.reader.frames(others[-1]) if others else ()
    return _at_end_of(snapshot, before[-1].frame) if before else snapshot


def find_segments(place: Place) -> Iterator[Segment]:
    """Every segment of a log, replaced ones included."""
    for entry in os.scandir(place.directory) if place.directory.is_dir() else ():
        segment = segment_named(place.directory, place.key, entry.name)
        if segment is not None:
            yield segment
