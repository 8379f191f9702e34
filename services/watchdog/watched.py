"""Which jobs the watchdog listens to, and with which terms: kept up to date by the read model of jobs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import structlog
from pydantic import ValidationError

from services.watchdog.adapters.memory import Memory
from services.watchdog.domain.terms import NO_RETRY, Terms
from shared.bus import Bus
from shared.jobs import Job, Recorded
from shared.readmodel import JobReadModel

ENDED_KNOWN: Final = 10_000
_UNKNOWN: Final = Terms(NO_RETRY, None)


@dataclass(frozen=True, slots=True)
class Watched:
    """A live job and its terms."""

    job: Job
    terms: Terms


class WatchedJobs:
    """Live jobs with their terms."""

    def __init__(self, bus: Bus, jobs: JobReadModel, memory: Memory) -> None:
        self._bus = bus
        self._jobs = jobs
        self._memory = memory
        self._terms: dict[str, Terms | None] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._log = structlog.get_logger(service="watchdog")
        jobs.on_event(self._on_event)

    def begin(self) -> None:
        """Take over every live job; the read model has caught up."""
        self._memory.keep_only(job.id for job in self._jobs.live())
        for job in self._jobs.live():
            self._terms_of(job)

    async def find(self, job_id: str) -> Watched | None:
        """The job, where it is live and this version can read its spec."""
        if job_id in self._ended or self._terms.get(job_id, _UNKNOWN) is None:
            return None
        # The first event of a job may not have come yet, though the agent knows it already.
        job = self._jobs.get(job_id) or await self._bus.load_job(job_id)
        if job is None or job.ended:
            self._note_end(job_id)
            return None
        terms = self._terms_of(job)
        return Watched(job, terms) if terms is not None else None

    def with_silence(self) -> Iterator[Watched]:
        """Jobs whose hangs are looked for."""
        for job_id, terms in list(self._terms.items()):
            job = self._jobs.get(job_id) if terms is not None and terms.silence_s is not None else None
            if job is not None and terms is not None:
                yield Watched(job, terms)

    def _on_event(self, _before: Job | None, after: Job, _recorded: Recorded) -> None:
        if after.ended:
            self._note_end(after.id)
            if self._jobs.caught_up.is_set():
                self._memory.forget(after.id)
        else:
            self._terms_of(after)

    def _note_end(self, job: str) -> None:
        self._terms.pop(job, None)
        self._ended[job] = None
        while len(self._ended) > ENDED_KNOWN:
            self._ended.popitem(last=False)

    def _terms_of(self, job: Job) -> Terms | None:
        """None where this version cannot read its spec."""
        if job.id not in self._terms:
            try:
                self._terms[job.id] = Terms.of(job)
            except ValidationError as error:
                self._log.error("spec_unreadable", job=job.id, error=str(error))
                self._terms[job.id] = None
        return self._terms[job.id]
