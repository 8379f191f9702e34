"""Tells what the first steps of an attempt took on each rank, once, so that the diagnoser can compare them.

Every few seconds the jobs of which something was stored are looked at: the lines that the hook of training code writes
are picked out of the beginning of each log. It is told when every rank has said all, when the logs are complete, or
after `LIMIT_S`. Where no rank uses the hook the beginnings of the logs, or the scalars, are looked at once, after
`PLAIN_S` or at the end, for steps that replicas counted themselves; mostly only one replica does, and then nothing is
told.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

import structlog

from services.logs.adapters.files import StoredLog
from services.logs.adapters.store import LogStore
from services.logs.domain.cleaning import clean
from services.logs.domain.steps import (
    HookLine,
    Place,
    Point,
    are_complete,
    bounded,
    compared,
    hook_lines,
    points_of_lines,
    rank_steps,
)
from services.logs.domain.tfevents import read_scalars
from services.logs.progress import JobEvents
from shared.clock import Clock
from shared.errors import TrainmasterError
from shared.events import Event, RankSteps, StepsMeasured
from shared.ids import host_name
from shared.jobs import Job
from shared.logs_wire import ReplicaRef

LOOK_S: Final = 5.0
PLAIN_S: Final = 600.0
LIMIT_S: Final = 1800.0
FEWEST_REPLICAS: Final = 3
LINES_BYTES: Final = 4 * 1024 * 1024
_READ_BYTES: Final = 256 * 1024
_PLAIN_BYTES: Final = 64 * 1024
_PLAIN_REPLICAS: Final = 64
_FIRST_FEW: Final = 2
_LINE_BYTES: Final = 256
_LOG_WINDOW_S: Final = 2.0
_SCALARS_WINDOW_S: Final = 0.1
_HOST: Final = re.compile(r"tfevents\.\d+\.([^/]+?)\.\d+(?:\.\d+)?(?:\.[^/.]*)?\Z")

Source = Literal["hook", "log", "scalars"]


@dataclass(slots=True)
class _Watched:
    """An attempt whose first steps are not told yet; how far each log was read."""

    attempt: int
    since: datetime
    told: bool = False
    read_bytes: dict[ReplicaRef, int] = field(default_factory=dict)
    lines: dict[ReplicaRef, list[HookLine]] = field(default_factory=dict)

    @property
    def all_lines(self) -> Iterator[HookLine]:
        return (line for lines in self.lines.values() for line in lines)


class FirstSteps:
    """Watches all jobs of this service."""

    def __init__(self, store: LogStore, events: JobEvents, clock: Clock) -> None:
        self._store = store
        self._rung = store.bells.listener()
        self._events = events
        self._clock = clock
        self._watched: dict[str, _Watched] = {}
        self._again: set[str] = set()
        self._log = structlog.get_logger(service="logs")

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._clock.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Look once at every job of which something came, or whose time has come."""
        due = {job for job, each in self._watched.items() if not each.told and self._is_time(each)}
        jobs, self._again = self._rung.take() | self._again | due, set()
        for job in jobs:
            try:
                await self._look_at(job)
            except (OSError, TrainmasterError) as error:
                self._log.warning("first_steps_not_told", job=job, reason=str(error))
                self._again.add(job)

    async def _look_at(self, job: str) -> None:
        known = self._store.known_logs(job)
        if not known and job not in self._watched:
            return
        watched = self._of_attempt(job, max((log.replica.attempt for log in known), default=0))
        if not watched.told:
            logs = await self._store.logs(job, watched.attempt)
            for log in logs:
                await self._read_on(watched, log)
            if all(log.position.ended for log in logs) or self._is_time(watched):
                await self._tell(job, watched, logs)
        if watched.told and not known:
            del self._watched[job]

    def _of_attempt(self, job: str, attempt: int) -> _Watched:
        known = self._watched.get(job)
        if known is None or known.attempt < attempt:
            known = self._watched[job] = _Watched(attempt, self._clock.now())
        return known

    def _is_time(self, watched: _Watched) -> bool:
        if are_complete(watched.all_lines):
            return True
        waited_s = (self._clock.now() - watched.since).total_seconds()
        return waited_s >= (LIMIT_S if watched.lines else PLAIN_S)

    async def _read_on(self, watched: _Watched, log: StoredLog) -> None:
        """The hook's lines in what the log has got; the end of a piece is read again, as a line may be cut there."""
        at, stop = watched.read_bytes.get(log.replica, 0), min(log.size, LINES_BYTES)
        while at < stop:
            data = await self._store.read(log, max(0, at - _LINE_BYTES), min(stop, at + _READ_BYTES))
            found = list(hook_lines(data))
            if found:
                watched.lines.setdefault(log.replica, []).extend(found)
            at = min(stop, at + _READ_BYTES)
        watched.read_bytes[log.replica] = at

    async def _tell(self, job_id: str, watched: _Watched, logs: Sequence[StoredLog]) -> None:
        job = await self._events.load_job(job_id)
        attempt = next((each for each in job.attempts if each.number == watched.attempt), None) if job else None
        watched.told = True
        if job is None or job.deleted or attempt is None or attempt.burn_in is not None:
            return
        try:
            source, ranks = await self._found(job, watched, logs)
            if ranks:
                await self._events.observe(self._event(job, watched.attempt, source, ranks))
        except (OSError, TrainmasterError):
            watched.told = False
            raise

    async def _found(
        self, job: Job, watched: _Watched, logs: Sequence[StoredLog]
    ) -> tuple[Source, tuple[RankSteps, ...]]:
        if watched.lines:
            return "hook", bounded(list(_of_hook(watched)))
        if not FEWEST_REPLICAS <= len(logs) <= _PLAIN_REPLICAS:
            return "log", ()
        ranks = await asyncio.to_thread(_of_logs, logs)
        if len(ranks) >= FEWEST_REPLICAS:
            return "log", tuple(ranks)
        ranks = await asyncio.to_thread(self._of_scalars, job, logs)
        return "scalars", tuple(ranks) if len(ranks) >= FEWEST_REPLICAS else ()

    def _of_scalars(self, job: Job, logs: Sequence[StoredLog]) -> list[RankSteps]:
        """By the names of event files, which have the host of who wrote them."""
        points: dict[Place, list[Point]] = {}
        places = {
            host_name(job.id, each.attempt, each.role, each.index).partition(".")[0]: (each.role, each.index)
            for each in (log.replica for log in logs)
        }
        for log in logs:
            for path, file in self._store.layout.event_files(log.replica):
                found = _HOST.search(path)
                place = places.get(found[1].partition(".")[0]) if found else None
                if place is not None and place not in points:
                    with file.open("rb") as opened:
                        points[place] = _points_of_events(opened.read(_READ_BYTES))
        return compared(points, _SCALARS_WINDOW_S)

    def _event(self, job: Job, attempt: int, source: Source, ranks: tuple[RankSteps, ...]) -> Event:
        return Event.of(
            StepsMeasured(source=source, ranks=ranks),
            job=job.id,
            attempt=attempt,
            time=self._clock.now(),
            owner=job.owner,
            project=job.project,
            traceparent=job.traceparent,
        )


def _of_hook(watched: _Watched) -> Iterator[RankSteps]:
    for replica, lines in sorted(watched.lines.items()):
        for rank in sorted({line.rank for line in lines}):
            yield rank_steps((replica.role, replica.index), [line for line in lines if line.rank == rank])


def _of_logs(logs: Sequence[StoredLog]) -> list[RankSteps]:
    """Mostly one replica alone counts steps: the others are read only where the first few say otherwise."""
    points: dict[Place, list[Point]] = {}
    for number, log in enumerate(logs):
        points[log.replica.role, log.replica.index] = points_of_lines(_timed_lines(log))
        if number == _FIRST_FEW and sum(len(each) > 1 for each in points.values()) <= 1:
            return []
    return compared(points, _LOG_WINDOW_S)


def _timed_lines(log: StoredLog) -> Iterator[tuple[float, str]]:
    """Lines of the beginning of a log, each with the time at which it was seen."""
    data, at = log.read(0, min(log.size, _PLAIN_BYTES)), 0
    marks, good_until = log.marks_near(0)
    for line in data.splitlines(keepends=True):
        if at >= good_until:
            marks, good_until = log.marks_near(at)
        if marks is not None:
            yield marks.time_at(at) / 1000, clean(line, final=True).text
        at += len(line)


def _points_of_events(data: bytes) -> list[Point]:
    """Steps and times of the tag that has the most of them."""
    series = max(read_scalars(data).series.values(), key=lambda each: len(each.steps), default=None)
    if series is None:
        return []
    points: list[Point] = []
    for step, at_s in zip(series.steps.tolist(), series.times_s.tolist(), strict=True):
        if points and step <= points[-1].step:
            break
        points.append(Point(step, at_s))
    return points
