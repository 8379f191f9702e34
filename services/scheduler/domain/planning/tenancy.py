"""What all running gangs hold, as columns, so that what is free at a later moment is one sum away.

A gang's parts lie in sequence: a row, what is held there, and the moment until which at the latest. Parts of a gang
that has ended hold nothing; once they are most of what is there, the columns are closed up.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.holding import Holding
from services.scheduler.domain.planning.layout import Bits, Ints

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER: Final = np.iinfo(np.int64).max
_LEAST: Final = 1024


def microseconds(at: datetime | None) -> int:
    """A moment as the columns have it; one that is not known is later than all others."""
    return _NEVER if at is None else (at - _EPOCH) // timedelta(microseconds=1)


def moment(at: int) -> datetime:
    """The moment that the columns mean."""
    return _EPOCH + timedelta(microseconds=at)


@dataclass(slots=True)
class _Parts:
    rows: Ints
    cpu_m: Ints
    memory_bytes: Ints
    slots: Ints
    devices: Bits
    until: Ints

    @classmethod
    def none(cls, room: int) -> _Parts:
        def zeros() -> Ints:
            return np.zeros(room, dtype=np.int64)

        return cls(zeros(), zeros(), zeros(), zeros(), np.zeros(room, dtype=np.uint64), zeros())

    def take_over(self, others: _Parts, count: int) -> None:
        self.rows[:count] = others.rows[:count]
        self.cpu_m[:count] = others.cpu_m[:count]
        self.memory_bytes[:count] = others.memory_bytes[:count]
        self.slots[:count] = others.slots[:count]
        self.devices[:count] = others.devices[:count]
        self.until[:count] = others.until[:count]

    def held(self, at: slice) -> Holding:
        return Holding(self.rows[at], self.cpu_m[at], self.memory_bytes[at], self.slots[at], self.devices[at])

    def put(self, at: slice, held: Holding, until: int) -> None:
        self.rows[at] = held.rows
        self.cpu_m[at] = held.cpu_m
        self.memory_bytes[at] = held.memory_bytes
        self.slots[at] = held.slots
        self.devices[at] = held.devices
        self.until[at] = until


class Tenancy:
    """Parts of all gangs."""

    def __init__(self) -> None:
        self._parts = _Parts.none(_LEAST)
        self._of: dict[str, slice] = {}
        self._used = 0

    def copy(self) -> Tenancy:
        """The same, to be changed freely."""
        other = Tenancy()
        other._make_room(self._used)
        other._parts.take_over(self._parts, self._used)
        other._of, other._used = dict(self._of), self._used
        return other

    def hold(self, gang: str, held: Holding, until: datetime | None) -> None:
        """Count what a gang holds, until then at the latest."""
        self.release(gang)
        count = len(held.rows)
        if self._used + count > len(self._parts.rows):
            self._close_up(count)
        at = self._of[gang] = slice(self._used, self._used + count)
        self._parts.put(at, held, microseconds(until))
        self._used += count

    def renew(self, gang: str, until: datetime | None) -> None:
        """Take over another end."""
        if gang in self._of:
            self._parts.until[self._of[gang]] = microseconds(until)

    def release(self, gang: str) -> None:
        """Count it no longer."""
        at = self._of.pop(gang, None)
        if at is not None:
            none = np.zeros(at.stop - at.start, dtype=np.int64)
            self._parts.put(at, Holding(none, none, none, none, none.astype(np.uint64)), _NEVER)

    def ends(self) -> list[int]:
        """The moments at which gangs end at the latest, in order."""
        until = np.unique(self._parts.until[: self._used])
        return [int(at) for at in until if at != _NEVER]

    def after(self, free: Columns, at: int | None = None) -> Columns:
        """What is free once those have ended that end by then; all of them where no moment is given."""
        columns = free.part(0, len(free))
        chosen = np.flatnonzero(self._parts.until[: self._used] <= (_NEVER if at is None else at))
        rows = self._parts.rows[chosen]
        np.add.at(columns.cpu_m, rows, self._parts.cpu_m[chosen])
        np.add.at(columns.memory_bytes, rows, self._parts.memory_bytes[chosen])
        np.add.at(columns.slots, rows, self._parts.slots[chosen])
        np.bitwise_or.at(columns.devices, rows, self._parts.devices[chosen])
        return columns

    def _close_up(self, count: int) -> None:
        """Lay what is live in sequence, with room for so many parts more."""
        before, places = self._parts, dict(self._of)
        self._of, self._used = {}, 0
        live = sum(at.stop - at.start for at in places.values())
        self._make_room(2 * (live + count))
        for gang, at in places.items():
            size = at.stop - at.start
            to = self._of[gang] = slice(self._used, self._used + size)
            held = before.held(at)
            self._parts.put(to, held, 0)
            self._parts.until[to] = before.until[at]
            self._used += size

    def _make_room(self, parts: int) -> None:
        self._parts = _Parts.none(max(parts, _LEAST))
