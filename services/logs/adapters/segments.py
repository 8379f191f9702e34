"""The stored part of one log: segment files in a directory, written at the end, read anywhere.

`seg-<offset>-<line>.zst` holds the bytes from that offset on (see `services.logs.domain.frames`); its name alone says
where to look for an offset or a line. The last segment grows until it is sealed; the others are sealed. What is known
of the log is an immutable `Snapshot`, exchanged as a whole, so that readers in other threads see a consistent one.

After a crash the last segment is walked frame by frame, checksums included, and cut off behind the last whole frame;
the write-ahead log has everything behind it.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import zstandard

from services.logs.adapters.disk import make_directories, sync_directory, sync_file, write_file_at
from services.logs.domain.frames import (
    HEADER_BYTES,
    TRAILER_BYTES,
    Footer,
    Frame,
    Placed,
    decode_footer,
    decode_header,
    encode_footer,
    encode_header,
    footer_bytes,
)
from services.logs.domain.lines import count_breaks

SEGMENT_BYTES: Final = 8 * 1024 * 1024
_LEVEL: Final = 1
_PREFIX, _SUFFIX = "seg-", ".zst"


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment by its name; `frames` is known of the growing one, and read from the footer of others."""

    path: Path
    offset: int
    line: int
    frames: tuple[Placed, ...] | None = None


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


class SegmentLog:
    """One log's directory; one thread at a time writes, any number read."""

    def __init__(self, directory: Path, *, verify: bool = False) -> None:
        self.directory = directory
        self.unsynced = False
        self.snapshot = _load(directory, verify=verify)
        self._new_names_in: set[Path] = set()

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
            self.snapshot = _with_frame(self.snapshot, Placed(frame, at + HEADER_BYTES))
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
        footer = encode_footer(segment.frames or (), ended=ended)
        write_file_at(segment.path, _end_of(segment), footer)
        os.truncate(segment.path, _end_of(segment) + len(footer))
        self.unsynced = True
        sealed = (*self.snapshot.segments[:-1], replace(segment, frames=None))
        self.snapshot = replace(self.snapshot, segments=sealed, ended=ended)

    def sync(self) -> None:
        """Make everything durable."""
        if not (self.unsynced and self.snapshot.segments):
            return
        sync_file(self.snapshot.segments[-1].path)
        for directory in self._new_names_in:
            sync_directory(directory)
        self._new_names_in.clear()
        self.unsynced = False

    def _begin_segment(self) -> None:
        snapshot = self.snapshot
        self._new_names_in |= {self.directory, *make_directories(self.directory)}
        path = self.directory / f"{_PREFIX}{snapshot.size:015d}-{snapshot.lines:012d}{_SUFFIX}"
        write_file_at(path, 0, b"")
        segment = Segment(path, snapshot.size, snapshot.lines, ())
        self.snapshot = replace(snapshot, segments=(*snapshot.segments, segment), ended=False)


def read_stored(snapshot: Snapshot, start: int, stop: int) -> bytes:
    """Bytes of the stored part of a log, as far as it has them."""
    first = max(bisect_right(snapshot.segments, start, key=lambda segment: segment.offset) - 1, 0)
    parts: list[bytes] = []
    for segment in snapshot.segments[first:]:
        if segment.offset >= stop:
            break
        parts += _read_segment(segment, start, stop)
    return b"".join(parts)


def _read_segment(segment: Segment, start: int, stop: int) -> list[bytes]:
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        frames = segment.frames
        if frames is None:
            footer = _read_footer(fd)
            frames = footer.frames if footer else ()
        first = max(bisect_right(frames, start, key=lambda placed: placed.frame.offset) - 1, 0)
        wanted = [placed for placed in frames[first:] if placed.frame.offset < stop and placed.frame.stop > start]
        return [_read_frame(fd, placed, start, stop) for placed in wanted]
    finally:
        os.close(fd)


def _read_frame(fd: int, placed: Placed, start: int, stop: int) -> bytes:
    frame = placed.frame
    packed = os.pread(fd, frame.packed_bytes, placed.at)
    data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=frame.length)
    return data[max(0, start - frame.offset) : stop - frame.offset]


def _packed(snapshot: Snapshot, text: Text) -> tuple[Frame, bytes]:
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(text.data)
    frame = Frame(
        generation=text.generation,
        base=text.base,
        offset=snapshot.size,
        length=len(text.data),
        first_line=snapshot.lines,
        breaks=count_breaks(text.data, after_cr=snapshot.ends_with_cr),
        ends_with_cr=text.data.endswith(b"\r"),
        first_ms=text.first_ms,
        last_ms=text.last_ms,
        packed_bytes=len(packed),
        packed_crc=zlib.crc32(packed),
    )
    return frame, packed


def _with_frame(snapshot: Snapshot, placed: Placed) -> Snapshot:
    *others, last = snapshot.segments
    grown = replace(last, frames=(*(last.frames or ()), placed))
    return _at_end_of(replace(snapshot, segments=(*others, grown)), placed.frame)


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


def _load(directory: Path, *, verify: bool) -> Snapshot:
    """What the directory holds; the last segment is put in order where it was being written."""
    segments = tuple(map(_segment_of, sorted(directory.glob(f"{_PREFIX}*{_SUFFIX}"))))
    if not segments:
        return Snapshot()
    *others, last = segments
    fd = os.open(last.path, os.O_RDWR | os.O_CLOEXEC)
    try:
        footer = _read_footer(fd)
        if footer and verify and _walk(fd) != footer.frames:
            footer = None
        frames = footer.frames if footer else _walk(fd)
        if not footer:
            last = replace(last, frames=frames)
            os.ftruncate(fd, _end_of(last))
    finally:
        os.close(fd)
    snapshot = Snapshot((*others, last), size=last.offset, lines=last.line, ended=bool(footer and footer.ended))
    if frames:
        return _at_end_of(snapshot, frames[-1].frame)
    return _without_frames(snapshot, tuple(others))


def _without_frames(snapshot: Snapshot, others: tuple[Segment, ...]) -> Snapshot:
    """A last segment that is empty; the one before it knows generation and base."""
    if not others:
        return snapshot
    fd = os.open(others[-1].path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        footer = _read_footer(fd)
    finally:
        os.close(fd)
    return _at_end_of(snapshot, footer.frames[-1].frame) if footer and footer.frames else snapshot


def _segment_of(path: Path) -> Segment:
    offset, line = path.name[len(_PREFIX) : -len(_SUFFIX)].split("-")
    return Segment(path, int(offset), int(line))


def _walk(fd: int) -> tuple[Placed, ...]:
    """All whole frames from the beginning of the file."""
    placed: list[Placed] = []
    at = 0
    while (frame := decode_header(os.pread(fd, HEADER_BYTES, at))) is not None:
        packed = os.pread(fd, frame.packed_bytes, at + HEADER_BYTES)
        if len(packed) < frame.packed_bytes or zlib.crc32(packed) != frame.packed_crc:
            break
        placed.append(Placed(frame, at + HEADER_BYTES))
        at += HEADER_BYTES + frame.packed_bytes
    return tuple(placed)


def _read_footer(fd: int) -> Footer | None:
    size = os.fstat(fd).st_size
    length = footer_bytes(os.pread(fd, TRAILER_BYTES, max(0, size - TRAILER_BYTES)))
    return decode_footer(os.pread(fd, length, size - length)) if length is not None and length <= size else None
