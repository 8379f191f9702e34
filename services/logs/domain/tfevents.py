"""Reading scalars from TensorBoard event files: TFRecord frames of `Event` messages in protobuf's wire format.

A record is a length (8 bytes), the masked CRC-32C of the length, the message and its CRC. Files grow while they are
read, so reading stops in front of a record that is not whole, and is resumed there. A length whose checksum is wrong
means damage: nothing behind it can be found, and reading stops for good.

Only what a scalar needs is looked at: time, step, and of each summary value the tag with either `simple_value` or a
tensor of one float (as TensorFlow 2 and `add_scalar(new_style=True)` write it).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_HEAD: Final = struct.Struct("<QI")
_FOOT_BYTES: Final = 4
_RECORD_MAX_BYTES: Final = 256 * 1024 * 1024
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_MASK: Final = 0xFFFFFFFF
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DT_FLOAT, _DT_DOUBLE = 1, 2

Value = int | bytes
Field = tuple[int, int, Value]


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value of a tag."""

    tag: str
    step: int
    time_s: float
    value: float


@dataclass(frozen=True, slots=True)
class Batch:
    """Scalars of the whole records in some bytes, how many bytes those are, and whether damage follows."""

    scalars: tuple[Scalar, ...]
    used_bytes: int
    damaged: bool = False


class _DamagedError(Exception):
    """The bytes are no record or no message."""


def read_scalars(data: bytes) -> Batch:
    """All scalars in the whole records at the beginning of the data."""
    scalars: list[Scalar] = []
    at = 0
    try:
        while (record := _record_at(data, at)) is not None:
            start, stop = record
            scalars += _scalars_of(data[start:stop])
            at = stop + _FOOT_BYTES
    except _DamagedError:
        return Batch(tuple(scalars), at, damaged=True)
    return Batch(tuple(scalars), at)


def missing_bytes(data: bytes) -> int:
    """How many bytes the first record needs beyond these; for records longer than what is read at once."""
    if len(data) < _HEAD.size:
        return _HEAD.size - len(data)
    length, _ = _HEAD.unpack_from(data)
    return max(0, _HEAD.size + int(length) + _FOOT_BYTES - len(data))


def _record_at(data: bytes, at: int) -> tuple[int, int] | None:
    if at + _HEAD.size > len(data):
        return None
    length, crc = _HEAD.unpack_from(data, at)
    if crc != masked_crc(data[at : at + 8]) or length > _RECORD_MAX_BYTES:
        raise _DamagedError
    start = at + _HEAD.size
    stop = start + length
    return (start, stop) if stop + _FOOT_BYTES <= len(data) else None


def _scalars_of(event: bytes) -> Iterator[Scalar]:
    time_s, step, values = 0.0, 0, []
    for number, kind, value in _fields(event):
        if number == 1 and kind == _FIXED64:
            time_s = _unpacked(_DOUBLE, value)
        elif number == 2 and isinstance(value, int):
            step = value - (1 << 64) if value >> 63 else value
        elif number == 5 and isinstance(value, bytes):
            values += [inner for inner_number, _, inner in _fields(value) if inner_number == 1]
    for value in values:
        tag, number_value = _value_of(value)
        if tag and number_value is not None:
            yield Scalar(tag, step, time_s, number_value)


def _value_of(message: Value) -> tuple[str, float | None]:
    tag, found = "", None
    for number, kind, value in _fields(message):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8", "replace")
        elif number == 2 and kind == _FIXED32:
            found = _unpacked(_FLOAT, value)
        elif number == 8 and isinstance(value, bytes):
            found = _tensor_value(value)
    return tag, found


def _tensor_value(message: bytes) -> float | None:
    """The value of a tensor that holds one float or double; None of any other."""
    fields = {number: value for number, _, value in _fields(message)}
    dtype = fields.get(1)
    number_type, list_field = {_DT_FLOAT: (_FLOAT, 5), _DT_DOUBLE: (_DOUBLE, 6)}.get(
        dtype if isinstance(dtype, int) else 0, (_FLOAT, 0)
    )
    content = fields.get(4) or fields.get(list_field, b"")
    return _unpacked(number_type, content) if isinstance(content, bytes) and len(content) == number_type.size else None


def _unpacked(number_type: struct.Struct, value: Value) -> float:
    (number,) = number_type.unpack(value) if isinstance(value, bytes) else (0.0,)
    return float(number)


def _fields(message: Value) -> Iterator[Field]:
    if not isinstance(message, bytes):
        raise _DamagedError
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, kind, value
            continue
        size, at = _varint(message, at) if kind == _BYTES else ({_FIXED64: 8, _FIXED32: 4}.get(kind, -1), at)
        if size < 0 or at + size > len(message):
            raise _DamagedError
        yield key >> 3, kind, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise _DamagedError


def masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and shifted as TFRecord wants it."""
    crc = _MASK
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= _MASK
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & _MASK


def _crc_table() -> tuple[int, ...]:
    table = []
    for number in range(256):
        crc = number
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_CRC_TABLE: Final = _crc_table()
