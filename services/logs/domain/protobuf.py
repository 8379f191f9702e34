"""Protobuf's wire format, as far as event files need it: the fields of one message, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
_SIZES: Final = {FIXED64: 8, FIXED32: 4}
_VARINT_MAX_BITS: Final = 70


class DamagedError(Exception):
    """The bytes are no message."""


class Span(NamedTuple):
    """A field: number, kind, where its content stands, and the content of a varint."""

    number: int
    kind: int
    start: int
    stop: int
    varint: int = 0


def spans(message: bytes, start: int = 0, stop: int | None = None) -> Iterator[Span]:
    """The fields between two places of a message; raises DamagedError."""
    at, end = start, len(message) if stop is None else stop
    while at < end:
        key, at = varint_at(message, at, end)
        kind = key & 7
        if kind == VARINT:
            value, after = varint_at(message, at, end)
            yield Span(key >> 3, kind, at, after, value)
            at = after
            continue
        size, at = varint_at(message, at, end) if kind == BYTES else (_SIZES.get(kind, -1), at)
        if size < 0 or at + size > end:
            raise DamagedError
        yield Span(key >> 3, kind, at, at + size)
        at += size


def varint_at(message: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at a place, and where the next thing stands; raises DamagedError."""
    value = shift = 0
    while at < end and shift < _VARINT_MAX_BITS:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise DamagedError
