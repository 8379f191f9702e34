"""Curves: the points of one tag of one run of one attempt, what a list says of them, and which are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from services.logs.domain.tfevents import Series
from services.logs.domain.thinning import shown


class CurveKey(NamedTuple):
    """Which curve; they are listed in this order."""

    attempt: int
    run: str
    tag: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which curves: `attempts` None is the last attempt that has any, and an empty set all of them."""

    attempts: frozenset[int] | None = None
    tags: frozenset[str] = frozenset()
    run: str | None = None

    def has(self, run: str, tag: str) -> bool:
        """Whether the curve of this run and tag is wanted."""
        return self.run in (None, run) and (not self.tags or tag in self.tags)


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve; `left_out` points are not in `series`."""

    key: CurveKey
    series: Series
    left_out: int = 0

    @property
    def count(self) -> int:
        """Points that there are, the ones left out included."""
        return len(self.series.steps) + self.left_out

    def thinned(self, points: int) -> Curve:
        """The curve with at most so many points, extremes kept."""
        chosen = shown(self.series.values, points)
        if len(chosen) == len(self.series.steps):
            return self
        return replace(self, series=_picked(self.series, chosen), left_out=self.count - len(chosen))

    def after(self, count: int) -> Curve:
        """The points behind the first `count`."""
        return replace(self, series=_picked(self.series, np.arange(count, len(self.series.steps))))


@dataclass(frozen=True, slots=True)
class Summary:
    """What a list says of a curve: how many points, the last one, and the extremes of the finite ones."""

    key: CurveKey
    count: int
    last_step: int
    last_time_s: float
    last_value: float
    lowest: float
    highest: float


def summary_of(curve: Curve) -> Summary:
    """The summary of a whole curve."""
    series = curve.series
    finite = series.values[np.isfinite(series.values)]
    lowest, highest = (float(finite.min()), float(finite.max())) if len(finite) else (np.nan, np.nan)
    last = int(series.steps[-1]), float(series.times_s[-1]), float(series.values[-1])
    return Summary(curve.key, curve.count, *last, lowest, highest)


def joined(parts: Sequence[Series]) -> Series:
    """Points one behind the other."""
    if len(parts) == 1:
        return parts[0]
    return Series(
        np.concatenate([part.steps for part in parts]),
        np.concatenate([part.times_s for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def _picked(series: Series, chosen: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Series:
    return Series(series.steps[chosen], series.times_s[chosen], series.values[chosen])


__all__ = ["Curve", "CurveKey", "Series", "Summary", "Wanted", "joined", "summary_of"]
