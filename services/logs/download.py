"""A whole log as a file: as text, or as a zstd stream that every tool unpacks, raw or cleaned.

The raw bytes can be asked for in ranges (RFC 9110), so that a broken download can be gone on with. Of a log that is in
segments the zstd stream is made of the stored frames as they are; the rest is packed on the way.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import zstandard

from services.logs.adapters.files import StoredLog
from services.logs.adapters.packing import pack_fast
from services.logs.domain.frames import FRAME_BYTES
from services.logs.handlers import LogHandlers

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Some bytes of a log: from `start` to before `stop`."""

    start: int
    stop: int


class UnsatisfiableRangeError(Exception):
    """A range of which the log has nothing."""


def range_of(header: str | None, size: int) -> ByteRange | None:
    """The range that a `Range` header means; None where everything is meant. Raises UnsatisfiableRangeError.

    Several ranges and other units are passed over, as the standard allows: then everything is sent.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or match[0] == "bytes=-":
        return None
    if not match[1]:
        start, stop = max(0, size - int(match[2])), size
    else:
        start, stop = int(match[1]), min(size, int(match[2]) + 1) if match[2] else size
        if match[2] and int(match[2]) < start:
            return None
    if start >= stop:
        raise UnsatisfiableRangeError
    return ByteRange(start, stop)


async def packed_raw(log: StoredLog, size: int) -> AsyncIterator[bytes]:
    """The first bytes of a log as zstd frames."""
    at = 0
    while at < size:
        stop, packed = await asyncio.to_thread(_next_packed, log, at, size)
        if stop == at:
            return
        yield packed
        at = stop


async def packed_clean(handlers: LogHandlers, log: StoredLog, size: int) -> AsyncIterator[bytes]:
    """The text of the first bytes of a log as one zstd frame."""
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    async for text in handlers.content(log, 0, size, raw=False):
        packed = await asyncio.to_thread(packer.compress, text)
        if packed:
            yield packed
    yield packer.flush()


def _next_packed(log: StoredLog, at: int, size: int) -> tuple[int, bytes]:
    """A stored frame where one begins there and is wanted whole; else some bytes, packed."""
    frame = log.segments.packed_frame_at(at)
    if frame is not None and at + frame[0] <= size:
        return at + frame[0], frame[1]
    data = log.read(at, min(size, at + FRAME_BYTES))
    return at + len(data), pack_fast(data) if data else b""
