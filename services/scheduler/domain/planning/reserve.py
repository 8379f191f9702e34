"""Keeping a place for the first gang of a pool that does not fit, so that those behind it cannot delay it for ever.

The gang gets its place at the first moment at which it fits if every running gang takes as long as it may: its
`ends_by`. A gang behind it may start at once if it is gone by then, or where it takes nothing of what the first will
need: it is fitted into the least of what is free now and what will be free beside the first.

Where the ends of too many running gangs are unknown there is no such moment. Then the gang waits for `PATIENCE` while
others pass it. After that it gets the place that is the most free already, and nobody else may use it: what is free
there stays free, and what runs there ends sooner or later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from services.scheduler.domain.gang import Gang
from services.scheduler.domain.planning.columns import Columns, lowest
from services.scheduler.domain.planning.fit import Place, fit, take
from services.scheduler.domain.planning.holding import Holding, Releases
from services.scheduler.domain.planning.layout import Bits, Flags, Ints

PATIENCE: Final = timedelta(minutes=10)
_PARTS: Final = 1000


@dataclass(frozen=True, slots=True)
class Reservation:
    """A place that is kept for a gang; it has it `at` the latest, where that is known."""

    gang: Gang
    places: tuple[Place, ...]
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Release:
    """What a running gang gives back, and when at the latest."""

    gang: str
    holding: Holding
    at: datetime | None


def reserve(
    gang: Gang, free: Columns, releases: Iterable[Release], now: datetime
) -> tuple[Reservation, Columns] | None:
    """The place that is kept for the gang, and what is left beside it once it has that; None where none is kept.

    `free` is without what is kept for others.
    """
    all_releases = list(releases)
    return _at_known_ends(gang, free, all_releases, now) or _by_age(gang, free, all_releases, now)


def _at_known_ends(
    gang: Gang, free: Columns, all_releases: list[Release], now: datetime
) -> tuple[Reservation, Columns] | None:
    ends = sorted((release.at, release.gang, release.holding) for release in all_releases if release.at is not None)
    releases = Releases(free, [held for _, _, held in ends])
    if fit(gang, releases.after(len(ends))) is None:
        return None
    count = bisect_left(range(len(ends)), 1, key=lambda count: int(fit(gang, releases.after(count)) is not None))
    then = releases.after(count)
    places = _with_devices(fit(gang, then) or (), then, ~free.devices)
    take(places, then)
    return Reservation(gang, places, max(ends[count - 1][0], now) if count else now), then


def _by_age(
    gang: Gang, free: Columns, all_releases: list[Release], now: datetime
) -> tuple[Reservation, Columns] | None:
    if gang.since is None or now - gang.since < PATIENCE:
        return None
    releases = Releases(free, [release.holding for release in all_releases])
    once_free = releases.after(len(all_releases))
    busy = _busy_parts(free, once_free)
    limits = np.unique(busy).tolist()

    def fits(limit: int) -> bool:
        return fit(gang, _only(once_free, busy <= limit)) is not None

    if not limits or not fits(limits[-1]):
        return None
    limit = limits[bisect_left(limits, 1, key=lambda limit: int(fits(limit)))]
    places = fit(gang, _only(once_free, busy <= limit)) or ()
    left = free.part(0, len(free))
    take(_with_devices(places, once_free, free.devices), left)
    return Reservation(gang, places, None), left


def _busy_parts(free: Columns, once_free: Columns) -> Ints:
    """How much of what each row will have is not free now: the largest part of any resource, in thousandths."""
    pairs = (
        (free.cpu_m, once_free.cpu_m),
        (free.memory_bytes // _PARTS, once_free.memory_bytes // _PARTS),
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
