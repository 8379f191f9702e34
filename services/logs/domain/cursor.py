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

from services.logs.domain.varints import packed_varint, taken_varint
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
    packed += packed_varint(_VERSION)
    packed += packed_varint(cursor.attempt)
    for role in sorted({role for role, _ in cursor.offsets}):
        indexes = {index: offset for (of, index), offset in cursor.offsets.items() if of == role}
        packed += packed_varint(len(role))
        packed += role.encode("ascii")
        packed += packed_varint(max(indexes) + 1)
        for index in range(max(indexes) + 1):
            packed += packed_varint(indexes.get(index, 0))
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
    version, at = taken_varint(packed, 0)
    if version != _VERSION:
        raise ValueError(version)
    attempt, at = taken_varint(packed, at)
    offsets: dict[Place, int] = {}
    while at < len(packed):
        length, at = taken_varint(packed, at)
        role = packed[at : at + length].decode("ascii")
        count, at = taken_varint(packed, at + length)
        if count > _MAX_INDEX:
            raise ValueError(count)
        for index in range(count):
            offset, at = taken_varint(packed, at)
            offsets[role, index] = offset
    return Cursor(attempt, {place: offset for place, offset in offsets.items() if offset})
