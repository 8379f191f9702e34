"""Times and durations for people. Times are shown in UTC, as everything the platform says about them is."""

from __future__ import annotations

from datetime import UTC, datetime

_MINUTE_S = 60
_HOUR_S = 60 * _MINUTE_S
_DAY_S = 24 * _HOUR_S


def clock_time(time: datetime | None) -> str:
    """`12:00:01.250`; a dash where there is no time."""
    return "-" if time is None else time.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]


def date_time(time: datetime | None) -> str:
    """`2026-01-02 12:00:01Z`; a dash where there is no time."""
    return "-" if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def duration(seconds: float) -> str:
    """`0.4s`, `12.5s`, `3m10s`, `2h05m`, `3d04h`."""
    if seconds < _MINUTE_S:
        return f"{max(seconds, 0):.1f}s"
    if seconds < _HOUR_S:
        return f"{int(seconds // _MINUTE_S)}m{int(seconds % _MINUTE_S):02}s"
    if seconds < _DAY_S:
        return f"{int(seconds // _HOUR_S)}h{int(seconds % _HOUR_S // _MINUTE_S):02}m"
    return f"{int(seconds // _DAY_S)}d{int(seconds % _DAY_S // _HOUR_S):02}h"


def took(start: datetime | None, end: datetime | None) -> str:
    """The time between two moments; a dash where one of them is not known."""
    return "-" if start is None or end is None else duration((end - start).total_seconds())
