"""Writing TensorBoard event files byte by byte, as the libraries do."""

from __future__ import annotations

import struct

from services.logs.domain.crc32c import masked_crc


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, kind: int, value: bytes) -> bytes:
    return varint(number << 3 | kind) + (varint(len(value)) if kind == 2 else b"") + value


def record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    crc = struct.pack("<I", masked_crc(length))
    return length + crc + payload + struct.pack("<I", masked_crc(payload))


def event(time_s: float, step: int, *values: bytes) -> bytes:
    summary = b"".join(field(1, 2, value) for value in values)
    step_field = field(2, 0, varint(step)) if step else b""
    return record(field(1, 1, struct.pack("<d", time_s)) + step_field + (field(5, 2, summary) if values else b""))


def version(time_s: float = 1.0) -> bytes:
    """The first record of every file."""
    return record(field(1, 1, struct.pack("<d", time_s)) + field(3, 2, b"brain.Event:2"))


def simple_value(tag: str, value: float) -> bytes:
    return field(1, 2, tag.encode()) + field(2, 5, struct.pack("<f", value))


def tensor_value(tag: str, value: float, *, double: bool = False, packed: bool = False) -> bytes:
    dtype = field(1, 0, varint(2 if double else 1))
    data = struct.pack("<d" if double else "<f", value)
    number = (6 if double else 5) if packed else 4
    return field(1, 2, tag.encode()) + field(8, 2, dtype + field(number, 2, data))


def scalars(tag: str, values: list[float], *, first_step: int = 0, time_s: float = 1_700_000_000.0) -> bytes:
    """Records of one tag, a step and a second apart."""
    return b"".join(
        event(time_s + number, first_step + number, simple_value(tag, value)) for number, value in enumerate(values)
    )
