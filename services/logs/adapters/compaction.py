"""Segments that are finished are packed anew, as small as they get, and with filters for searching.

As many segments as fit into one become one with full frames. It is written beside them, made durable, and named so
that it stands for them (`segment_files`); then they are removed. With an archive the new segment is put there and
removed from the directory. A process may die at any point of this: the bytes are always there once, by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from services.logs.adapters.disk import sync_directory, sync_file
from services.logs.adapters.packing import pack_small
from services.logs.adapters.segment_files import Segment, SegmentName, write_placeholder
from services.logs.adapters.segments import SegmentLog, Text, packed_frame
from services.logs.domain.cleaning import without_sequences
from services.logs.domain.filters import OVERLAP_BYTES, filter_of
from services.logs.domain.frames import FRAME_BYTES, Placed, encode_footer, encode_header
from services.logs.domain.marks import Marks, marks_of, thinned
from services.logs.ports import Archive

TEXT_BYTES: Final = 64 * 1024 * 1024
"""So much text goes into one segment."""
_UNFINISHED: Final = ".packing"


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring segments that become one, and whether the log ends with them."""

    segments: tuple[Segment, ...]
    start: int
    stop: int
    ended: bool


def next_group(log: SegmentLog) -> Group | None:
    """What to pack anew next; None where there is nothing, or not enough of a log that still grows."""
    snapshot = log.snapshot
    finished = [*snapshot.segments] if snapshot.sealed() else [*snapshot.segments[:-1]]
    stops = [*(segment.offset for segment in snapshot.segments[1:]), snapshot.size]
    group: list[Segment] = []
    start = stop = 0
    for segment, end in zip(finished, stops, strict=False):
        full = stop - start >= TEXT_BYTES or (group and end - start > 2 * TEXT_BYTES)
        if segment.name.stop is not None or full:
            if group:
                break
            continue
        if not group:
            start = segment.offset
        group.append(segment)
        stop = end
    is_last = bool(group) and group[-1] == snapshot.segments[-1]
    if stop == start or (is_last and not snapshot.ended and stop - start < TEXT_BYTES):
        return None
    return Group(tuple(group), start, stop, ended=is_last and snapshot.ended)


def pack_anew(log: SegmentLog, group: Group) -> Segment:
    """Write the new segment; durable, and not yet known to readers."""
    name = SegmentName(group.start, group.segments[0].line, group.stop)
    partial = log.directory / f"{name.text}.{os.getpid()}{_UNFINISHED}"
    placed: list[Placed] = []
    filters: list[bytes] = []
    with partial.open("wb") as file:
        for text, before in _texts(log, group):
            line = placed[-1].frame.stop_line if placed else name.line
            offset = placed[-1].frame.stop if placed else group.start
            frame, packed = packed_frame(text, offset, line, pack_small(text.data), after_cr=before.endswith(b"\r"))
            at = file.tell() + frame.header_bytes
            file.write(encode_header(frame) + packed)
            placed.append(Placed(frame, at))
            filters.append(_filter_of(text.data, before[-OVERLAP_BYTES:]))
        file.write(encode_footer(placed, filters, ended=group.ended))
    sync_file(partial)
    path = log.directory / name.text
    partial.rename(path)
    sync_directory(log.directory)
    return Segment(name, path)


def remove_replaced(group: Group) -> None:
    """Remove the files that the new segment stands for."""
    for segment in group.segments:
        segment.path.unlink(missing_ok=True)


def archived(log: SegmentLog, segment: Segment) -> Segment:
    """Put a segment that was packed anew into the archive; raises UnavailableError."""
    archive = log.reader.archive
    if archive is None:
        return segment
    key, size = f"{log.place.key}/{segment.name.text}", segment.path.stat().st_size
    archive.put(key, segment.path)
    if not log.directory.exists():  # the job was deleted meanwhile
        archive.delete([key])
        raise FileNotFoundError(log.directory)
    with log.reader.opened(segment) as file:
        write_placeholder(log.directory, segment.name, file)
    sync_directory(log.directory)
    return Segment(segment.name, segment.path, key=key, size=size)


def unarchived(log: SegmentLog) -> list[Segment]:
    """Segments that are ready for the archive and not in it."""
    if log.reader.archive is None:
        return []
    return [each for each in log.snapshot.segments if each.name.stop is not None and not each.is_archived]


def remove_archived(archive: Archive | None, job: str) -> None:
    """Remove everything of a job from the archive; raises UnavailableError."""
    if archive is not None:
        archive.delete([f"{job}/{name}" for name, _ in archive.names(job)])


def remove_unfinished(directory: Path) -> None:
    """Remove what a process that died has left of its packing."""
    for entry in list(os.scandir(directory)) if directory.is_dir() else []:
        if entry.name.endswith(_UNFINISHED):
            Path(entry.path).unlink(missing_ok=True)


def _texts(log: SegmentLog, group: Group) -> Iterator[tuple[Text, bytes]]:
    """Text for full frames, and what stands before each."""
    frames = [placed for segment in group.segments for placed in log.reader.frames(segment)]
    before = log.read(max(0, group.start - OVERLAP_BYTES), group.start)
    for start in range(group.start, group.stop, FRAME_BYTES):
        stop = min(group.stop, start + FRAME_BYTES)
        data = log.read(start, stop)
        if len(data) != stop - start:
            raise OSError(f"{log.directory}: bytes {start} to {stop} cannot be read")
        within = [placed for placed in frames if placed.frame.offset < stop and placed.frame.stop > start]
        last = within[-1].frame
        yield (
            Text(
                data=data,
                generation=last.generation,
                base=last.base,
                first_ms=min(placed.frame.first_ms for placed in within),
                last_ms=max(placed.frame.last_ms for placed in within),
                marks=_marks(within, start, stop),
            ),
            before,
        )
        before = data


def _marks(within: Sequence[Placed], start: int, stop: int) -> Marks:
    given = [marks_of(placed.frame) for placed in within]
    marks = [mark for each in given for mark in each.each]
    first = max((mark for mark in marks if mark[0] <= start), default=marks[0])
    spacing = max(each.spacing for each in given)
    return thinned([(start, first[1]), *(mark for mark in marks if start < mark[0] < stop)], spacing)


def _filter_of(data: bytes, before: bytes) -> bytes:
    text = before + data
    return filter_of(text, without_sequences(text)) if b"\x1b" in text or b"\xc2" in text else filter_of(text)
