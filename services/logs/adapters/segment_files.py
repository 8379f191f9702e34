"""Segment files by name, and the bytes and indexes in them, wherever they are.

| name | content |
|---|---|
| `seg-<offset>-<line>.zst` | bytes from that offset on, as they came; the last of a log may still be growing |
| `seg-<offset>-<line>-<stop>.zst` | bytes up to `stop`, packed anew; whatever else lies in that range is out of date |
| `seg-<offset>-<line>-<stop>.zst.<size>.archived` | the footer of a segment that is in the archive, of so many bytes |

A name says what must be known to find an offset or a line. Rewritten ones never change, so they may be kept in an
archive. Which of the others they replace can be told by the names alone: it does not matter at which point of the
replacement a process died.
"""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from services.logs.adapters.disk import sync_file
from services.logs.adapters.packing import unpack
from services.logs.domain.frames import (
    HEADER_MAX_BYTES,
    TRAILER_BYTES,
    Footer,
    Placed,
    decode_footer,
    decode_header,
    footer_bytes,
)
from services.logs.ports import Archive

_NAME: Final = re.compile(r"seg-(\d{15})-(\d{12})(?:-(\d{15}))?\.zst")
_ARCHIVED: Final = re.compile(r"(seg-\d{15}-\d{12}-\d{15}\.zst)\.(\d{1,15})\.archived")
_FOOTERS_KEPT: Final = 64
_TEXTS_KEPT: Final = 16
_FOOTER_GUESS_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """Where a segment begins in its log; and where it ends, of one that was packed anew."""

    offset: int
    line: int
    stop: int | None = None

    @property
    def text(self) -> str:
        """The name of the file."""
        end = "" if self.stop is None else f"-{self.stop:015d}"
        return f"seg-{self.offset:015d}-{self.line:012d}{end}.zst"


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment: its place; the frames of a growing one; the size of one that is in the archive under `key`."""

    name: SegmentName
    path: Path
    frames: tuple[Placed, ...] | None = None
    key: str = ""
    size: int = 0

    @property
    def offset(self) -> int:
        """Offset of its first byte."""
        return self.name.offset

    @property
    def line(self) -> int:
        """Line breaks before it."""
        return self.name.line

    @property
    def is_archived(self) -> bool:
        """Whether it is in the archive and not in the directory."""
        return bool(self.key)


class SegmentFile(Protocol):
    """An open segment."""

    @property
    def size(self) -> int:
        """Its length in bytes."""
        ...

    def read(self, at: int, length: int) -> bytes:
        """Bytes at a position."""
        ...


def parse_name(text: str) -> SegmentName | None:
    """The name in a file name; None where it is none."""
    match = _NAME.fullmatch(text)
    return SegmentName(int(match[1]), int(match[2]), int(match[3]) if match[3] else None) if match else None


def write_placeholder(directory: Path, segment: SegmentName, file: SegmentFile) -> None:
    """Write the file that stands for a segment in the archive; the directory is not synced."""
    path = _placeholder(directory, segment, file.size)
    partial = path.with_suffix(".partial")
    partial.write_bytes(footer_of(file))
    sync_file(partial)
    partial.rename(path)


def _placeholder(directory: Path, segment: SegmentName, size: int) -> Path:
    return directory / f"{segment.text}.{size}.archived"


def segment_named(directory: Path, key: str, text: str) -> Segment | None:
    """The segment that a file name in a directory means; `key` is what keys of the archive begin with there."""
    match = _ARCHIVED.fullmatch(text)
    name = parse_name(match[1] if match else text)
    if name is None:
        return None
    if match is None:
        return Segment(name, directory / text)
    return Segment(name, directory / name.text, key=f"{key}/{name.text}", size=int(match[2]))


def in_order(segments: Iterable[Segment]) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Segments that make up a log, and those that were replaced."""
    kept: list[Segment] = []
    replaced: list[Segment] = []
    covered = -1
    for segment in sorted(segments, key=lambda each: (each.offset, -(each.name.stop or 0), each.is_archived)):
        if segment.offset < covered:
            replaced.append(segment)
            continue
        kept.append(segment)
        covered = segment.name.stop or -1
    return tuple(kept), tuple(replaced)


class SegmentReader:
    """Opens segments, and remembers the footers of some and the text of the last frames."""

    def __init__(self, archive: Archive | None = None) -> None:
        self.archive = archive
        self._footers: OrderedDict[Path, Footer] = OrderedDict()
        self._texts: OrderedDict[tuple[Path, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def archived_file(self, key: str, size: int) -> SegmentFile:
        """An object of the archive; there must be one."""
        if self.archive is None:
            raise FileNotFoundError(key)
        return _ArchivedFile(self.archive, key, size)

    @contextmanager
    def opened(self, segment: Segment) -> Iterator[SegmentFile]:
        """The segment's bytes; raises FileNotFoundError, UnavailableError."""
        if segment.is_archived:
            yield self.archived_file(segment.key, segment.size)
            return
        fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield _LocalFile(fd)
        finally:
            os.close(fd)

    def footer(self, segment: Segment) -> Footer | None:
        """The footer of a sealed segment; None where it has none."""
        with self._lock:
            known = self._footers.get(segment.path)
            if known is not None:
                self._footers.move_to_end(segment.path)
                return known
        footer = _local_footer(segment) if segment.is_archived else None
        if footer is None:
            with self.opened(segment) as file:
                footer = read_footer(file)
        if footer is not None:
            self._remember(segment.path, footer)
        return footer

    def frames(self, segment: Segment) -> tuple[Placed, ...]:
        """The frames of a segment."""
        if segment.frames is not None:
            return segment.frames
        footer = self.footer(segment)
        return footer.frames if footer else ()

    def text(self, segment: Segment, placed: Placed) -> bytes:
        """The text of a frame; raises FileNotFoundError, UnavailableError."""
        place = (segment.path, placed.at)
        with self._lock:
            known = self._texts.get(place)
            if known is not None:
                self._texts.move_to_end(place)
                return known
        with self.opened(segment) as file:
            packed = file.read(placed.at, placed.frame.packed_bytes)
        text = unpack(packed, placed.frame.length)
        with self._lock:
            self._texts[place] = text
            while len(self._texts) > _TEXTS_KEPT:
                self._texts.popitem(last=False)
        return text

    def _remember(self, path: Path, footer: Footer) -> None:
        with self._lock:
            self._footers[path] = footer
            while len(self._footers) > _FOOTERS_KEPT:
                self._footers.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _LocalFile:
    fd: int

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def read(self, at: int, length: int) -> bytes:
        return os.pread(self.fd, length, at)


@dataclass(frozen=True, slots=True)
class _ArchivedFile:
    archive: Archive
    key: str
    length: int

    @property
    def size(self) -> int:
        return self.length

    def read(self, at: int, length: int) -> bytes:
        length = min(length, self.length - at)
        return self.archive.read(self.key, at, length) if length > 0 else b""


def walk(file: SegmentFile, *, verify: bool) -> tuple[Placed, ...]:
    """All whole frames from the beginning of a file; `verify` their checksums, too."""
    placed: list[Placed] = []
    at, size = 0, file.size
    while (frame := decode_header(file.read(at, HEADER_MAX_BYTES))) is not None:
        start = at + frame.header_bytes
        at = start + frame.packed_bytes
        if at > size or (verify and zlib.crc32(file.read(start, frame.packed_bytes)) != frame.packed_crc):
            break
        placed.append(Placed(frame, start))
    return tuple(placed)


def read_footer(file: SegmentFile) -> Footer | None:
    """The footer at the end of a file; None where there is none that is whole."""
    data = footer_of(file)
    return decode_footer(data) if data else None


def footer_of(file: SegmentFile) -> bytes:
    """The bytes of the footer at the end of a file, in one read of a guessed length or two; empty without one."""
    size = file.size
    end = file.read(max(0, size - _FOOTER_GUESS_BYTES), min(size, _FOOTER_GUESS_BYTES))
    length = footer_bytes(end[-TRAILER_BYTES:])
    if length is None or length > size:
        return b""
    return end[-length:] if length <= len(end) else file.read(size - length, length)


def _local_footer(segment: Segment) -> Footer | None:
    """The footer of an archived segment, as it was written down here."""
    try:
        data = _placeholder(segment.path.parent, segment.name, segment.size).read_bytes()
    except FileNotFoundError:
        return None
    return decode_footer(data) if footer_bytes(data) == len(data) else None
