"""Scalars of a job, read from its stored event files without TensorBoard.

Files grow; what was read of a file once is kept and only the rest is read, for as many files as fit a limit of points.
A directory below the TensorBoard directory is a *run*, as TensorBoard has it; the files of a run make one curve a tag,
in the order of their names, which begin with the time at which they were made.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from services.logs.adapters.layout import Layout
from services.logs.domain.tfevents import missing_bytes, read_scalars
from shared.logs_wire import ReplicaRef

CACHED_POINTS: Final = 2_000_000
CURVE_POINTS: Final = 50_000
_READ_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class _Series:
    """Points of one tag in one file."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    times_s: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True)
class _ReadFile:
    """What was read of a file so far."""

    used_bytes: int = 0
    damaged: bool = False
    series: dict[str, _Series] = field(default_factory=dict)

    @property
    def points(self) -> int:
        """Points over all tags."""
        return sum(len(series.steps) for series in self.series.values())


@dataclass(frozen=True, slots=True)
class Point:
    """One value; None where it is no finite number."""

    step: int
    time_s: float
    value: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of one tag of one run; `count` says how many there are where not all are given."""

    attempt: int
    run: str
    tag: str
    count: int
    points: tuple[Point, ...]


class ScalarReader:
    """Reads curves; used from threads, one at a time."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._files: OrderedDict[Path, _ReadFile] = OrderedDict()
        self._reading = threading.Lock()

    def curves(self, job: str, attempt: int | None, tag: str | None) -> list[Curve]:
        """The curves of an attempt, of the last one that has any where None is given."""
        with self._reading:
            replicas = sorted(self._layout.replicas(job), reverse=True)
            for number in sorted({replica.attempt for replica in replicas}, reverse=True):
                if attempt in (None, number):
                    curves = self._curves_of([each for each in replicas if each.attempt == number], tag)
                    if curves:
                        return curves
        return []

    def _curves_of(self, replicas: list[ReplicaRef], tag: str | None) -> list[Curve]:
        found: dict[tuple[int, str, str], list[_Series]] = {}
        for replica in replicas:
            for path, file in self._layout.event_files(replica):
                run = path.rpartition("/")[0]
                for name, series in self._read(file).series.items():
                    if tag in (None, name):
                        found.setdefault((replica.attempt, run, name), []).append(series)
        return [_curve(*key, series) for key, series in sorted(found.items())]

    def _read(self, path: Path) -> _ReadFile:
        known = self._files.setdefault(path, _ReadFile())
        self._files.move_to_end(path)
        _read_on(path, known)
        while len(self._files) > 1 and sum(file.points for file in self._files.values()) > CACHED_POINTS:
            self._files.popitem(last=False)
        return known


def _read_on(path: Path, known: _ReadFile) -> None:
    """Read what the file has got since."""
    with path.open("rb") as file:
        file.seek(known.used_bytes)
        rest, want = b"", _READ_BYTES
        while not known.damaged and (data := file.read(want)):
            batch = read_scalars(rest + data)
            known.used_bytes += batch.used_bytes
            known.damaged = batch.damaged
            for scalar in batch.scalars:
                series = known.series.setdefault(scalar.tag, _Series())
                series.steps.append(scalar.step)
                series.times_s.append(scalar.time_s)
                series.values.append(scalar.value)
            rest = (rest + data)[batch.used_bytes :]
            want = max(_READ_BYTES, missing_bytes(rest))


def _curve(attempt: int, run: str, tag: str, parts: list[_Series]) -> Curve:
    count = sum(len(part.steps) for part in parts)
    points = tuple(point for number, point in enumerate(_points(parts)) if _is_shown(number, count))
    return Curve(attempt, run, tag, count, points)


def _points(parts: list[_Series]) -> Iterator[Point]:
    for part in parts:
        for step, time_s, value in zip(part.steps, part.times_s, part.values, strict=True):
            yield Point(step, time_s, value if math.isfinite(value) else None)


def _is_shown(number: int, count: int) -> bool:
    """Of very many points evenly many are given, the last one always."""
    every = -(-count // CURVE_POINTS)
    return every <= 1 or (count - 1 - number) % every == 0
