"""Looks how far jobs are, and tells it as an event where that has changed.

Nothing is done for each byte that comes in: every few seconds the jobs of which something was stored are looked at as
far as they are due, by the ends of a few logs (the first replica of each role) and by the scalars. A job is due soon
after its first bytes, then at most once a minute, and the rarer the longer it runs: a fiftieth of its time so far. So a
job of a month has about four hundred such events. When its logs are complete it is looked at once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

import structlog

from services.logs.adapters.files import StoredLog
from services.logs.adapters.store import LogStore
from services.logs.domain.cleaning import clean
from services.logs.domain.curves import Wanted
from services.logs.domain.progress import Progress, left_s, of_curves, of_lines
from services.logs.scalars import ScalarReader
from shared.clock import Clock, rfc3339
from shared.errors import TrainmasterError
from shared.events import Event, ProgressReported
from shared.jobs import Attempt, Job

LOOK_S: Final = 2.0
EVENT_MIN_S: Final = 60.0
_SHARE_OF_ELAPSED: Final = 50
_NOTHING_FOUND_S: Final = 5.0
_TAIL_BYTES: Final = 8 * 1024
_LOGS_MAX: Final = 4
_ESTIMATE_MAX: Final = timedelta(days=3650)


class JobEvents(Protocol):
    """Where jobs are read and events about them are told."""

    async def load_job(self, job_id: str) -> Job | None:
        """The job as its events tell it."""
        ...

    async def observe(self, event: Event) -> int:
        """Publish an observation."""
        ...


@dataclass(slots=True)
class _Watched:
    """A job that is being written to."""

    attempt: int
    due: datetime
    tries: int = 0
    told: Progress | None = None
    told_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was found, and whether no more can come."""

    progress: Progress
    complete: bool


class ProgressWatch:
    """Watches all jobs of this service."""

    def __init__(self, store: LogStore, scalars: ScalarReader, events: JobEvents, clock: Clock) -> None:
        self._store = store
        self._rung = store.bells.listener()
        self._scalars = scalars
        self._events = events
        self._clock = clock
        self._watched: dict[str, _Watched] = {}
        self._log = structlog.get_logger(service="logs")

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._clock.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Look at what is due once."""
        for job in self._rung.take() | self._watched.keys():
            try:
                await self._look_at(job)
            except (OSError, TrainmasterError) as error:
                self._log.warning("progress_not_told", job=job, reason=str(error))
                self._put_off(job)

    def _put_off(self, job: str) -> None:
        watched = self._watched.get(job)
        if watched is not None:
            watched.due = self._clock.now() + timedelta(seconds=EVENT_MIN_S)

    async def _look_at(self, job: str) -> None:
        logs = _chosen(self._store.known_logs(job))
        if not logs:
            self._watched.pop(job, None)
            return
        watched = self._of_attempt(job, logs[0].replica.attempt)
        if self._clock.now() < watched.due and not _complete(logs):
            return
        seen = await self._seen(job, watched.attempt, logs)
        if seen.progress.known and seen.progress != watched.told:
            await self._tell(job, watched, seen.progress)
        elif not seen.progress.known:
            watched.tries += 1
            watched.due = self._clock.now() + timedelta(seconds=min(EVENT_MIN_S, _NOTHING_FOUND_S * watched.tries))
        if seen.complete:
            self._watched.pop(job, None)

    def _of_attempt(self, job: str, attempt: int) -> _Watched:
        known = self._watched.get(job)
        if known is None or known.attempt != attempt:
            known = self._watched[job] = _Watched(attempt, self._clock.now())
        return known

    async def _seen(self, job: str, attempt: int, logs: Sequence[StoredLog]) -> _Seen:
        complete = _complete(logs)
        found = Progress()
        for log in logs:
            tail = await self._store.read(log, max(0, log.size - _TAIL_BYTES), log.size)
            found = found.over(of_lines(clean(tail, final=True).text.splitlines()))
        curves = await asyncio.to_thread(self._scalars.curves, job, Wanted(frozenset({attempt})))
        return _Seen(found.over(of_curves(curves)), complete)

    async def _tell(self, job_id: str, watched: _Watched, progress: Progress) -> None:
        job = await self._events.load_job(job_id)
        attempt = next((each for each in job.attempts if each.number == watched.attempt), None) if job else None
        if job is None or job.deleted or attempt is None:
            return
        now = self._clock.now()
        elapsed_s = _elapsed_s(attempt, now)
        payload = _payload(progress, watched, elapsed_s, now)
        if not _same(attempt.progress, payload):
            await self._events.observe(_event(payload, job, watched.attempt))
        watched.told, watched.told_at = progress, now
        watched.due = now + timedelta(seconds=max(EVENT_MIN_S, elapsed_s / _SHARE_OF_ELAPSED))


def _chosen(logs: Sequence[StoredLog]) -> list[StoredLog]:
    """The logs of the last attempt that are looked at: the first replica of each role."""
    last = max((log.replica.attempt for log in logs), default=0)
    firsts = [log for log in logs if log.replica.attempt == last and log.replica.index == 0]
    return sorted(firsts, key=lambda log: log.replica)[:_LOGS_MAX]


def _complete(logs: Sequence[StoredLog]) -> bool:
    return all(log.position.ended for log in logs)


def _elapsed_s(attempt: Attempt, now: datetime) -> float:
    began = attempt.started_at or attempt.placed_at or attempt.queued_at
    return max(0.0, (now - began).total_seconds())


def _payload(progress: Progress, watched: _Watched, elapsed_s: float, now: datetime) -> ProgressReported:
    between_s = (now - watched.told_at).total_seconds() if watched.told_at else 0.0
    left = left_s(progress, elapsed_s, watched.told, between_s)
    soon = left is not None and left < _ESTIMATE_MAX.total_seconds()
    return ProgressReported(
        at=now,
        step=progress.step,
        total_steps=progress.total_steps,
        within_epoch=bool(progress.within_epoch),
        epoch=progress.epoch,
        total_epochs=progress.total_epochs,
        loss=progress.loss,
        steps_per_second=progress.steps_per_second,
        fraction=progress.fraction,
        estimated_end=now + timedelta(seconds=left) if left is not None and soon else None,
    )


def _same(told: ProgressReported | None, payload: ProgressReported) -> bool:
    """Whether the job's events say this already, as after a restart."""
    if told is None:
        return False
    return told.model_copy(update={"at": payload.at, "estimated_end": payload.estimated_end}) == payload


def _event(payload: ProgressReported, job: Job, attempt: int) -> Event:
    return Event.of(
        payload,
        job=job.id,
        attempt=attempt,
        time=payload.at,
        owner=job.owner,
        project=job.project,
        part=rfc3339(payload.at),
        traceparent=job.traceparent,
    )
