"""Numbers of seven bits a byte, the lowest first; every byte but the last has its high bit set.

So small numbers, which offsets' differences mostly are, take a byte or two.
"""

from __future__ import annotations

_BITS_MAX = 63


def packed_varint(number: int) -> bytes:
    """The number, which is not negative, in as few bytes as it needs."""
    packed = bytearray()
    while number >= 0x80:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)
    return bytes(packed)


def taken_varint(packed: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, and where it ends; raises IndexError at half a one, ValueError at one too long."""
    number = shift = 0
    while True:
        byte = packed[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > _BITS_MAX:
            raise ValueError(shift)
