"""Reading scalars from TensorBoard event files: records of `Event` messages in protobuf's wire format.

Nearly all records of a training run are alike: a time, a step, and one value under one tag. Those are read in columns:
a cursor for each record is moved over field after field, with numpy doing all records in one step, and a record that
is not as expected drops out. What dropped out (several values in one event, histograms, pictures, the file's version)
is read field by field.

Only what a scalar needs is looked at: time, step, and of each summary value the tag with either `simple_value` or a
tensor of one float (as TensorFlow 2 and `add_scalar(new_style=True)` write it).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from services.logs.domain.crc32c import Offsets
from services.logs.domain.event_columns import Row, Rows, read_rows, tensor_spot
from services.logs.domain.protobuf import BYTES, FIXED32, FIXED64, DamagedError, Span, spans
from services.logs.domain.tfrecords import Records, whole_records

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_PADDING: Final = bytes(64)


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one tag in the order in which they were written."""

    steps: NDArray[np.int64]
    times_s: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Scalars of the whole records in some bytes by tag, how many bytes those are, and whether damage follows."""

    series: Mapping[str, Series]
    used_bytes: int
    damaged: bool = False


def read_scalars(data: bytes) -> Batch:
    """All scalars in the whole records at the beginning of the data."""
    buffer = np.frombuffer(data + _PADDING, np.uint8)
    records = whole_records(data, buffer)
    rows, others = read_rows(buffer, records.starts, records.starts + records.lengths)
    singles, records = _read_singly(data, records, others)
    return Batch(_by_tag(rows.before(len(records.starts)), singles), records.used_bytes, records.damaged)


def _read_singly(data: bytes, records: Records, numbers: Offsets) -> tuple[list[Row], Records]:
    """The scalars of records by their numbers, field by field; the first that is no message cuts the records."""
    rows: list[Row] = []
    for number in numbers.tolist():
        start = int(records.starts[number])
        message = data[start : start + int(records.lengths[number])]
        try:
            rows += _rows_of(number, message)
        except DamagedError:
            return rows, records.cut(number)
    return rows, records


def _rows_of(number: int, event: bytes) -> Iterator[Row]:
    time_s, step, values = 0.0, 0, []
    for span in spans(event):
        if span.number == 1 and span.kind == FIXED64:
            (time_s,) = _DOUBLE.unpack_from(event, span.start)
        elif span.number == 2:
            step = span.varint - (1 << 64) if span.varint >> 63 else span.varint
        elif span.number == 5 and span.kind == BYTES:
            values += [inner for inner in spans(event, span.start, span.stop) if inner.number == 1]
    for value in values:
        if value.kind != BYTES:
            raise DamagedError
        tag, found = _value_of(event, value)
        if tag and found is not None:
            yield Row(number, tag, step, time_s, found)


def _value_of(event: bytes, value: Span) -> tuple[str, float | None]:
    tag, found = "", None
    for span in spans(event, value.start, value.stop):
        if span.number == 1 and span.kind == BYTES:
            tag = event[span.start : span.stop].decode("utf-8", "replace")
        elif span.number == 2 and span.kind == FIXED32:
            (found,) = _FLOAT.unpack_from(event, span.start)
        elif span.number == 8 and span.kind == BYTES:
            spot = tensor_spot(event, span.start, span.stop)
            found = spot.unpack(event) if spot else None
    return tag, found


def _by_tag(rows: Rows, singles: list[Row]) -> dict[str, Series]:
    """All rows by tag, in the order of their records."""
    joined = rows.joined(singles)
    order = np.argsort(joined.tags, kind="stable")
    edges = np.searchsorted(joined.tags[order], np.arange(len(joined.names) + 1))
    found = {}
    for tag, name in enumerate(joined.names):
        chosen = order[edges[tag] : edges[tag + 1]]
        if len(chosen):
            found[name] = Series(joined.steps[chosen], joined.times_s[chosen], joined.values[chosen])
    return found
