"""Keeping a place for the first gang of a pool that does not fit, so that those behind it cannot delay it for ever.

The gang gets its place at the first moment at which it fits if every running gang takes as long as it may: its
`ends_by`. A gang behind it may start at once if it is gone by then, or where it takes nothing of what the first will
need: it is fitted into the least of what is free now and what will be free beside the first.

Where the ends of too many running gangs are unknown there is no such moment. Then the gang waits for `PATIENCE` while
others pass it. After that it is given the place that is the most free already, and nobody else may use what is free of
it: that stays free, and what runs there ends sooner or later. What stands idle for it is limited, since it may be for
long: to one node at first, and to a share of all nodes that grows with its age to the whole after `DRAIN`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from services.scheduler.domain.gang import Gang
from services.scheduler.domain.planning.columns import Columns, lowest
from services.scheduler.domain.planning.fit import Place, fit, fits, take
from services.scheduler.domain.planning.layout import Bits, Flags, Ints
from services.scheduler.domain.planning.tenancy import Tenancy, microseconds, moment

PATIENCE: Final = timedelta(minutes=10)
DRAIN: Final = timedelta(hours=6)
_PARTS: Final = 1000


@dataclass(frozen=True, slots=True)
class Reservation:
    """A place that is kept for a gang; it has it `at` the latest, where that is known."""

    gang: Gang
    places: tuple[Place, ...]
    at: datetime | None


def reserve(
    gang: Gang, free: Columns, tenancy: Tenancy, now: datetime, expected: datetime | None = None
) -> tuple[Reservation, Columns] | None:
    """The place that is kept for the gang, and what is left beside it once it has that; None where none is kept.

    `free` is without what is kept for others. The search begins at the moment that is `expected`, which changes
    nothing but the time that it takes.
    """
    return _at_known_ends(gang, free, tenancy, now, expected) or _by_age(gang, free, tenancy, now)


def _at_known_ends(
    gang: Gang, free: Columns, tenancy: Tenancy, now: datetime, expected: datetime | None
) -> tuple[Reservation, Columns] | None:
    moments = [microseconds(now), *(at for at in tenancy.ends() if at > microseconds(now))]
    number = _first(
        len(moments),
        lambda number: fits(gang, tenancy.after(free, moments[number])),
        bisect_left(moments, microseconds(expected)) if expected else len(moments) // 2,
    )
    if number is None:
        return None
    then = tenancy.after(free, moments[number])
    places = _with_devices(fit(gang, then) or (), then, ~free.devices)
    take(places, then)
    return Reservation(gang, places, moment(moments[number])), then


def _by_age(gang: Gang, free: Columns, tenancy: Tenancy, now: datetime) -> tuple[Reservation, Columns] | None:
    if gang.since is None or now - gang.since < PATIENCE:
        return None
    once_free = tenancy.after(free)
    busy = _busy_parts(free, once_free)
    limits = np.unique(busy).tolist()
    number = _first(
        len(limits),
        lambda number: fits(gang, _only(once_free, busy <= limits[number])),
        bisect_left(limits, _least_limit(gang, once_free, busy)),
    )
    if number is None:
        return None
    places = fit(gang, _only(once_free, busy <= limits[number])) or ()
    left = free.part(0, len(free))
    take(_with_devices(places, once_free, free.devices), left)
    most = max(len(free) * (now - gang.since) // DRAIN, 1)
    _give_back(left, free, _beyond(most, places, busy))
    return Reservation(gang, places, None), left


def _beyond(most: int, places: Sequence[Place], busy: Ints) -> Ints:
    """Those rows of the places that may not stand idle yet: all but so many of those with the most free."""
    rows = np.unique([row for place in places for row in place.rows])
    return rows[np.argsort(busy[rows], kind="stable")][most:]


def _give_back(left: Columns, free: Columns, rows: Ints) -> None:
    """Let others have what is free on these rows."""
    left.cpu_m[rows], left.memory_bytes[rows] = free.cpu_m[rows], free.memory_bytes[rows]
    left.slots[rows], left.devices[rows] = free.slots[rows], free.devices[rows]


def _first(count: int, holds: Callable[[int], bool], guess: int) -> int | None:
    """The first number for which it holds, as for all after it; looked for from a guess on, in growing steps."""
    if not count:
        return None
    low, high, step = -1, count, 1
    at = min(max(guess, 0), count - 1)
    while low < at < high:
        if holds(at):
            high, at = at, at - step
        else:
            low, at = at, at + step
        step *= 2
    while high - low > 1:
        at = (low + high) // 2
        low, high = (low, at) if holds(at) else (at, high)
    return high if high < count else None


def _least_limit(gang: Gang, once_free: Columns, busy: Ints) -> int:
    """Below this part too few replicas of some role fit, wherever they go."""
    order = np.argsort(busy, kind="stable")
    least = 0
    for role in gang.roles:
        filled = np.cumsum(once_free.holds(role.pool, role.request)[order])
        at = int(np.searchsorted(filled, role.replicas))
        least = max(least, int(busy[order[min(at, len(order) - 1)]]))
    return least


def _busy_parts(free: Columns, once_free: Columns) -> Ints:
    """How much of what each row will have is not free now: the largest part of any resource, in thousandths."""
    pairs = (
        (free.cpu_m, once_free.cpu_m),
        (free.memory_bytes // _PARTS, once_free.memory_bytes // _PARTS),
        (free.slots, once_free.slots),
        (free.free_gpus(""), once_free.free_gpus("")),
    )
    parts = [(later - now) * _PARTS // np.maximum(later, 1) for now, later in pairs]
    busy: Ints = np.maximum.reduce(parts)
    return busy


def _only(columns: Columns, chosen: Flags) -> Columns:
    """Columns in which the other rows have nothing."""
    part = columns.part(0, len(columns))
    part.cpu_m[~chosen] = 0
    return part


def _with_devices(places: Sequence[Place], columns: Columns, preferred: Bits) -> tuple[Place, ...]:
    """The same places with the preferred devices as far as they go."""
    scratch, changed = columns.part(0, len(columns)), []
    for place in places:
        request, rows = place.role.request, np.array(place.rows)
        needed = np.array(place.counts) * request.gpus
        usable = scratch.devices[rows] & columns.layout.devices_of(request.gpu_model)[rows]
        first = usable & preferred[rows]
        taken = lowest(first, np.minimum(needed, np.bitwise_count(first)))
        taken |= lowest(usable & ~taken, needed - np.bitwise_count(taken))
        scratch.devices[rows] &= ~taken
        changed.append(replace(place, devices=tuple(taken.tolist())))
    return tuple(changed)
