"""Events with one scalar each, read in columns: every step below looks at one field of all records at once.

`_Cursors` has a place in the buffer for each record that is still as expected. Fields must come in the order of their
numbers, which is how every protobuf library writes them. What a tensor is wrapped in is the same from record to record,
so of those with an equally long rest one is read field by field, and the others are taken where their bytes are the
same but for the number itself.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.logs.domain.crc32c import Bytes, Offsets
from services.logs.domain.protobuf import BYTES, DamagedError, spans

_TIME_KEY, _STEP_KEY, _SUMMARY_KEY = 0x09, 0x10, 0x2A
_VALUE_KEY, _TAG_KEY, _SIMPLE_KEY, _TENSOR_KEY = 0x0A, 0x0A, 0x15, 0x42
_DT_FLOAT, _DT_DOUBLE = 1, 2
_VARINT_MAX_BYTES: Final = 10
_TAG_MAX_BYTES: Final = 512
_TEMPLATES_MAX: Final = 16
_SIMPLE_BYTES: Final = 5
_NUMBERS: Final = {_DT_FLOAT: struct.Struct("<f"), _DT_DOUBLE: struct.Struct("<d")}
_LIST_FIELDS: Final = {_DT_FLOAT: 5, _DT_DOUBLE: 6}
_CONTENT_FIELD: Final = 4


class Row(NamedTuple):
    """One value, with the number of its record."""

    record: int
    tag: str
    step: int
    time_s: float
    value: float


@dataclass(frozen=True, slots=True)
class Rows:
    """Values in columns; `tags` are places in `names`."""

    records: Offsets
    tags: NDArray[np.int64]
    names: tuple[str, ...]
    steps: NDArray[np.int64]
    times_s: NDArray[np.float64]
    values: NDArray[np.float64]

    def before(self, record: int) -> Rows:
        """The rows of records before this one."""
        keep = self.records < record
        if keep.all():
            return self
        return Rows(
            self.records[keep], self.tags[keep], self.names, self.steps[keep], self.times_s[keep], self.values[keep]
        )

    def joined(self, singles: Sequence[Row]) -> Rows:
        """These rows and single ones, in the order of their records."""
        if not singles:
            return self
        numbers = {name: number for number, name in enumerate(self.names)}
        tags = [numbers.setdefault(row.tag, len(numbers)) for row in singles]
        records = np.append(self.records, [row.record for row in singles])
        order = np.argsort(records, kind="stable")
        return Rows(
            records[order],
            np.append(self.tags, tags).astype(np.int64)[order],
            tuple(numbers),
            np.append(self.steps, np.array([row.step for row in singles], np.int64))[order],
            np.append(self.times_s, [row.time_s for row in singles])[order],
            np.append(self.values, [row.value for row in singles])[order],
        )


class Spot(NamedTuple):
    """Where in a buffer a tensor has its one number."""

    at: int
    number: struct.Struct

    def unpack(self, data: bytes) -> float:
        """The number."""
        (value,) = self.number.unpack_from(data, self.at)
        return float(value)


def tensor_spot(message: bytes, start: int, stop: int) -> Spot | None:
    """Where the tensor between two places has its number; None where it does not hold exactly one float or double."""
    fields = {span.number: span for span in spans(message, start, stop)}
    dtype = fields[1].varint if 1 in fields else 0
    number = _NUMBERS.get(dtype)
    content = fields.get(_CONTENT_FIELD) or fields.get(_LIST_FIELDS.get(dtype, -1))
    if number is None or content is None or content.stop - content.start != number.size:
        return None
    return Spot(content.start, number)


def read_rows(buffer: Bytes, starts: Offsets, stops: Offsets) -> tuple[Rows, Offsets]:
    """The records with one scalar as rows, and the numbers of all other records; `buffer` is padded at its end."""
    cursors = _Cursors(buffer, starts, stops)
    cursors.expect(_TIME_KEY)
    times_s = _numbers(buffer, cursors.at, "<f8")
    cursors.at = cursors.at + 8
    steps = cursors.optional_varint(_STEP_KEY)
    cursors.enter(_SUMMARY_KEY)
    cursors.enter(_VALUE_KEY)
    cursors.expect(_TAG_KEY)
    lengths = cursors.varint()
    tags_at = cursors.at
    cursors.good &= (lengths > 0) & (lengths <= _TAG_MAX_BYTES) & (tags_at + lengths < stops)
    cursors.at = cursors.at + np.where(cursors.good, lengths, 0)
    values = _values(cursors)
    tags, names = _tags(buffer, tags_at, lengths, cursors)
    good = np.flatnonzero(cursors.good)
    rows = Rows(good, tags[good], names, steps[good], times_s[good].astype(np.float64), values[good])
    return rows, np.flatnonzero(~cursors.good)


class _Cursors:
    """A place in the buffer for each record, and whether the record was as expected so far."""

    def __init__(self, buffer: Bytes, starts: Offsets, stops: Offsets) -> None:
        self.buffer = buffer
        self.stops = stops
        self.at = starts
        self.good = np.ones(len(starts), np.bool)
        self._last = len(buffer) - _VARINT_MAX_BYTES - 1

    def expect(self, key: int) -> None:
        """The next byte must be this one."""
        self._bound()
        self.good &= self.buffer[self.at] == key
        self.at = self.at + 1

    def varint(self) -> NDArray[np.int64]:
        """The number that comes next."""
        self._bound()
        value = np.zeros(len(self.at), np.uint64)
        going = np.ones(len(self.at), np.bool)
        size = np.zeros(len(self.at), np.int64)
        for number in range(_VARINT_MAX_BYTES):
            byte = self.buffer[self.at + number]
            value |= np.where(going, byte & 0x7F, 0).astype(np.uint64) << np.uint64(7 * number)
            size += going
            going &= byte >= 0x80
            if not going.any():
                break
        self.good &= ~going
        self.at = self.at + size
        return value.view(np.int64)

    def optional_varint(self, key: int) -> NDArray[np.int64]:
        """The number behind this key; 0 where another key comes next."""
        self._bound()
        has = self.buffer[self.at] == key
        before, good = self.at, self.good.copy()
        self.at = self.at + 1
        values = self.varint()
        self.at = np.where(has, self.at, before)
        self.good = np.where(has, self.good, good)
        return np.where(has, values, 0)

    def enter(self, key: int) -> None:
        """Go into a message under this key that reaches to the end of the record."""
        self.expect(key)
        length = self.varint()
        self.good &= self.at + length == self.stops

    def _bound(self) -> None:
        """Keep what is not as expected from leaving the buffer."""
        self.good &= self.at < self.stops
        self.at = np.minimum(self.at, self._last)


def _values(cursors: _Cursors) -> NDArray[np.float64]:
    """The numbers that the cursors stand in front of; what has none drops out."""
    at = np.minimum(cursors.at, len(cursors.buffer) - _SIMPLE_BYTES - 1)
    key, rest = cursors.buffer[at], cursors.stops - cursors.at
    simple = cursors.good & (key == _SIMPLE_KEY) & (rest == _SIMPLE_BYTES)
    values = _numbers(cursors.buffer, at + 1, "<f4").astype(np.float64)
    found = simple.copy()
    tensors = np.flatnonzero(cursors.good & (key == _TENSOR_KEY))
    for length in np.unique(rest[tensors]).tolist():
        _read_tensors(cursors, tensors[rest[tensors] == length], length, values, found)
    cursors.good = found
    return values


def _read_tensors(
    cursors: _Cursors, numbers: Offsets, length: int, values: NDArray[np.float64], found: NDArray[np.bool]
) -> None:
    """Read the tensors of records whose rest has this length, as far as a few templates go."""
    for _ in range(_TEMPLATES_MAX):
        if not len(numbers):
            return
        rests = cursors.buffer[cursors.at[numbers][:, None] + np.arange(length)]
        template = rests[0].tobytes()
        spot = _spot_in_rest(template)
        if spot is None:
            numbers = numbers[1:]
            continue
        same = np.ones(length, np.bool)
        same[spot.at : spot.at + spot.number.size] = False
        alike = (rests[:, same] == rests[0][same]).all(axis=1)
        kind = "<f4" if spot.number.size == 4 else "<f8"
        chosen = numbers[alike]
        values[chosen] = _numbers(cursors.buffer, cursors.at[chosen] + spot.at, kind)
        found[chosen] = True
        numbers = numbers[~alike]


def _spot_in_rest(rest: bytes) -> Spot | None:
    try:
        for span in spans(rest):
            if span.number == 8 and span.kind == BYTES:
                return tensor_spot(rest, span.start, span.stop)
    except DamagedError:
        return None
    return None


def _tags(
    buffer: Bytes, at: Offsets, lengths: NDArray[np.int64], cursors: _Cursors
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """A number for the tag of each record, and the tags by number.

    Tags are compared by a hash of 64 bits first; where two tags share one, the records of the second drop out.
    """
    numbers = np.zeros(len(at), np.int64)
    names: dict[str, int] = {}
    for length in np.unique(lengths[cursors.good]).tolist():
        chosen = np.flatnonzero(cursors.good & (lengths == length))
        texts = buffer[at[chosen][:, None] + np.arange(length)]
        _, first, inverse = np.unique(_hashes(texts), return_index=True, return_inverse=True)
        cursors.good[chosen[(texts != texts[first][inverse]).any(axis=1)]] = False
        known = [names.setdefault(texts[row].tobytes().decode("utf-8", "replace"), len(names)) for row in first]
        numbers[chosen] = np.array(known, np.int64)[inverse]
    return numbers, tuple(names)


def _hashes(texts: Bytes) -> NDArray[np.uint64]:
    hashes = np.zeros(len(texts), np.uint64)
    for column in range(texts.shape[1]):
        hashes = (hashes ^ texts[:, column]) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    return hashes


def _numbers(buffer: Bytes, at: Offsets, kind: str) -> NDArray[np.float64]:
    size = np.dtype(kind).itemsize
    bounded = np.minimum(at, len(buffer) - size)
    return np.ascontiguousarray(buffer[bounded[:, None] + np.arange(size)]).view(kind).reshape(-1)
