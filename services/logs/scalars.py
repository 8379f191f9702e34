"""Scalars of a job, read from its stored event files without TensorBoard.

Files grow; what was read of a file once is kept and only the rest is read, for as many files as fit a limit of points.
A directory below the TensorBoard directory is a *run*, as TensorBoard has it; the files of a run make one curve a tag,
in the order of their names, which begin with the time at which they were made. Each attempt has curves of its own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from services.logs.adapters.layout import Layout
from services.logs.domain.curves import Curve, CurveKey, Series, Wanted, joined
from services.logs.domain.tfevents import read_scalars
from services.logs.domain.tfrecords import missing_bytes

CACHED_POINTS: Final = 2_000_000
_READ_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class _ReadFile:
    """What was read of a file so far; the pieces of a tag become one when they are asked for."""

    used_bytes: int = 0
    damaged: bool = False
    points: int = 0
    pieces: dict[str, list[Series]] = field(default_factory=dict)

    def add(self, tag: str, series: Series) -> None:
        """Points that come behind those of the tag."""
        self.pieces.setdefault(tag, []).append(series)
        self.points += len(series.steps)

    def series(self, tag: str) -> Series:
        """All points of the tag."""
        pieces = self.pieces[tag]
        if len(pieces) > 1:
            self.pieces[tag] = pieces = [joined(pieces)]
        return pieces[0]


class ScalarReader:
    """Reads curves; used from threads, one at a time."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._files: OrderedDict[Path, _ReadFile] = OrderedDict()
        self._reading = threading.Lock()

    def curves(self, job: str, wanted: Wanted = Wanted()) -> list[Curve]:  # noqa: B008  # frozen
        """The curves of the wanted attempts and tags, with all of their points."""
        with self._reading:
            for attempts in self._attempts(job, wanted):
                found: dict[CurveKey, list[Series]] = {}
                for key, series in self._series(job, attempts, wanted):
                    found.setdefault(key, []).append(series)
                if found:
                    return [Curve(key, joined(parts)) for key, parts in sorted(found.items())]
        return []

    def _attempts(self, job: str, wanted: Wanted) -> Iterator[frozenset[int]]:
        """Attempts whose curves are given together; the first choice that has any is the one."""
        stored = {replica.attempt for replica in self._layout.replicas_here(job)}
        if wanted.attempts is not None:
            yield frozenset(stored if not wanted.attempts else stored & wanted.attempts)
            return
        for number in sorted(stored, reverse=True):
            yield frozenset({number})

    def _series(self, job: str, attempts: frozenset[int], wanted: Wanted) -> Iterator[tuple[CurveKey, Series]]:
        for replica in sorted(self._layout.replicas_here(job), reverse=True):
            if replica.attempt not in attempts:
                continue
            for path, file in self._layout.event_files(replica):
                run = path.rpartition("/")[0]
                read = self._read(file)
                for tag in read.pieces:
                    if wanted.has(run, tag):
                        yield CurveKey(replica.attempt, run, tag), read.series(tag)

    def _read(self, path: Path) -> _ReadFile:
        known = self._files.setdefault(path, _ReadFile())
        self._files.move_to_end(path)
        _read_on(path, known)
        while len(self._files) > 1 and sum(file.points for file in self._files.values()) > CACHED_POINTS:
            self._files.popitem(last=False)
        return known


def _read_on(path: Path, known: _ReadFile) -> None:
    """Read what the file has got since."""
    if known.damaged or _size_of(path) <= known.used_bytes:
        return
    with path.open("rb") as file:
        file.seek(known.used_bytes)
        rest, want = b"", _READ_BYTES
        while not known.damaged and (data := file.read(want)):
            rest += data
            batch = read_scalars(rest)
            known.used_bytes += batch.used_bytes
            known.damaged = batch.damaged
            for tag, series in batch.series.items():
                known.add(tag, series)
            rest = rest[batch.used_bytes :]
            want = max(_READ_BYTES, missing_bytes(rest))


def _size_of(path: Path) -> int:
    """Bytes of a file; 0 where it was deleted with its job just now."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
