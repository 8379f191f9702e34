"""The cursor of a follower: how far it is in which logs, as an opaque piece of ASCII that a client sends back.

It holds the attempt being followed and, for each role, the offsets of its replicas by index (0 where nothing was read),
packed as variable-length numbers in URL-safe base64: five bytes a replica, so that a gang of hundreds fits a header.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.errors import InvalidInputError, Violation

CURSOR_MAX_CHARS: Final = 16_384
_VERSION: Final = 1
_MAX_INDEX: Final = 100_000

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Attempt, and offset by role and index."""

    attempt: int
    offsets: Mapping[Place, int] = field(default_factory=dict)


def encode_cursor(cursor: Cursor) -> str:
    """The cursor as text."""
    packed = bytearray()
    _put(packed, _VERSION)
    _put(packed, cursor.attempt)
    for role in sorted({role for role, _ in cursor.offsets}):
        indexes = {index: offset for (of, index), offset in cursor.offsets.items() if of == role}
        _put(packed, len(role))
        packed += role.encode("ascii")
        _put(packed, max(indexes) + 1)
        for index in range(max(indexes) + 1):
            _put(packed, indexes.get(index, 0))
    return base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def decode_cursor(text: str, place: str = "/header/last-event-id") -> Cursor:
    """The cursor in the text, which stood at this place; raises InvalidInputError where it is none of ours."""
    try:
        packed = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return _unpack(packed)
    except (binascii.Error, ValueError, IndexError):
        message = f"{text[:40]!r} was not given out for this; send back one that was"
        raise InvalidInputError((Violation(place, "bad-event-id", message),)) from None


def _unpack(packed: bytes) -> Cursor:
    version, at = _take(packed, 0)
    if version != _VERSION:
        raise ValueError(version)
    attempt, at = _take(packed, at)
    offsets: dict[Place, int] = {}
    while at < len(packed):
        length, at = _take(packed, at)
        role = packed[at : at + length].decode("ascii")
        count, at = _take(packed, at + length)
        if count > _MAX_INDEX:
            raise ValueError(count)
        for index in range(count):
            offset, at = _take(packed, at)
            offsets[role, index] = offset
    return Cursor(attempt, {place: offset for place, offset in offsets.items() if offset})


def _put(packed: bytearray, number: int) -> None:
    while number >= 0x80:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)


def _take(packed: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = packed[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError(shift)
