"""Jobs: submit, find, list, stop, delete.

Writes go to the stream under compare-and-set and are decided again where somebody was quicker. Reads come from the read
model; whoever wrote waits until it has folded the own event, so that a client sees what it did.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from services.submitter.domain import idempotency, transitions
from services.submitter.domain.admission import submitted_event
from services.submitter.domain.listing import JobFilters, is_visible, only_one, query_of
from services.submitter.domain.naming import NameTakenError, name_of
from services.submitter.domain.quotas import check_queue, queue_limit
from services.submitter.handlers.names import Names
from shared.admission import Locations, LookedUp, World, admit
from shared.admission.directories import Directories
from shared.auth.principal import Principal
from shared.bus import Bus, ConcurrentWriteError, Transition
from shared.bus.blobs import Blobs
from shared.catalog import Catalog, CatalogWatch, Project, asker_of
from shared.clock import Clock
from shared.documents.fields import shown
from shared.errors import ConflictError, NotFoundError, UnavailableError
from shared.events import Event, Resolved, subject_of
from shared.http.etag import check_if_match
from shared.ids import is_job_id, new_job_id
from shared.jobs import Job, Recorded, fold
from shared.jobspec import JobSpec, JudgedJob, judge_job
from shared.readmodel import JobPage, JobReadModel
from shared.telemetry import current_traceparent

MAX_TRIES: Final = 10
_READ_MODEL_WAIT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class JobHandlers:
    """The use cases about jobs."""

    bus: Bus
    jobs: JobReadModel
    catalog: CatalogWatch
    uploads: Blobs
    locations: Locations
    clock: Clock
    names: Names
    directories: Directories
    in_turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # so that a queue's limit holds among many at once

    # --- reading -----------------------------------------------------------------------------------------------------

    async def find(self, principal: Principal, reference: str) -> Job:
        """The job that an id or a name means to the principal; raises NotFoundError or ConflictError."""
        self._check_ready()
        catalog = self.catalog.view
        if is_job_id(reference):
            job = self.jobs.get(reference) or await self.bus.load_job(reference)
            if job is not None and is_visible(job, principal, catalog):
                return job
        own = self.jobs.find(principal.user_id, reference) or await self._holder(principal, reference)
        if own is not None:
            return own
        return only_one([job for job in self.jobs.named(reference) if is_visible(job, principal, catalog)], reference)

    async def _holder(self, principal: Principal, name: str) -> Job | None:
        """The principal's job of this name by the record itself, which knows it before the read model does."""
        holder = await self.names.holder(principal.user_id, name)
        return await self.bus.load_job(holder) if holder is not None else None

    def page(self, principal: Principal, filters: JobFilters) -> JobPage:
        """A page of the jobs that the principal may see."""
        self._check_ready()
        return self.jobs.query(query_of(filters, principal, self.catalog.view))

    async def history(self, principal: Principal, reference: str) -> list[Recorded]:
        """All events of a job so far."""
        return await self.bus.history.job_events((await self.find(principal, reference)).id)

    # --- submitting --------------------------------------------------------------------------------------------------

    async def submit(self, principal: Principal, document: object, key: str | None) -> Job:
        """The job that the document makes, or that the same call made before; raises InvalidInputError and others."""
        digest = idempotency.digest_of(document)
        if key is None:
            return await self._make(principal, document, new_job_id(), digest)
        job_id = idempotency.job_id_of(principal.user_id, idempotency.check_key(key))
        try:
            return await self._made_before(job_id, digest) or await self._make(principal, document, job_id, digest)
        except ConflictError:
            # The same call may have been made twice at once: what is in the way is then the job of the other.
            made = await self._made_before(job_id, digest)
            if made is None:
                raise
            return made

    async def _make(self, principal: Principal, document: object, job_id: str, digest: str) -> Job:
        judged = judge_job(document)
        catalog = await self.catalog.refresh()
        job, resolved = await self._admit(judged, principal, catalog)
        make = partial(self._event, job, resolved, principal, job_id, digest)
        limit = queue_limit(catalog.get(Project, job.metadata.project))
        if limit is None:
            return await self._append(job, principal, job_id, make)
        async with self.in_turn:
            check_queue(job.metadata.project, limit, self.jobs.live())
            return await self._append(job, principal, job_id, make)

    async def _append(self, job: JobSpec, principal: Principal, job_id: str, make: Callable[[str], Event]) -> Job:
        """Put the submission on record; `make` gives it for a name."""
        for number in range(MAX_TRIES):
            name = name_of(job, job_id, number)
            event = make(name)
            try:
                claim = await self.names.claim(event, principal.user_id, name)
                sequence = await self.bus.append_batch([claim, Transition(event, 0)])
            except ConcurrentWriteError as error:
                if error.subject != claim.subject:
                    raise ConflictError(f"there is a job {job_id} already") from error
                continue
            except NameTakenError:
                if job.metadata.generate_name is None:
                    raise
                continue
            structlog.get_logger().info("job_submitted", job=job_id, owner=principal.user_id)
            return await self._after(None, sequence, event)
        raise UnavailableError(f"the name {shown(name)} is being claimed by others; try again")

    async def _made_before(self, job_id: str, digest: str) -> Job | None:
        job = await self.bus.load_job(job_id)
        return idempotency.check_repeat(job, digest) if job is not None else None

    async def _admit(self, judged: JudgedJob, principal: Principal, catalog: Catalog) -> tuple[JobSpec, Resolved]:
        """The job with everything that it refers to as it is now; raises for all that is wrong."""
        upload = judged.parts.code.upload if judged.parts.code else None
        kept = frozenset({upload}) if upload is not None and await self.uploads.exists(upload) else frozenset[str]()
        found = LookedUp.of(judged.parts, World(catalog, asker_of(principal, catalog), self.locations, kept))
        return admit(judged, found, await self.directories.missing(found.paths))

    def _event(
        self, job: JobSpec, resolved: Resolved, principal: Principal, job_id: str, digest: str, name: str
    ) -> Event:
        """The submission as an event."""
        return submitted_event(
            job,
            resolved,
            principal,
            job_id=job_id,
            name=name,
            time=self.clock.now(),
            request_digest=digest,
            traceparent=current_traceparent(),
        )

    # --- ending ------------------------------------------------------------------------------------------------------

    async def stop(self, principal: Principal, reference: str, if_match: int | None = None) -> Job:
        """Ask for the job's end; a repeat changes nothing."""
        return await self._change(principal, reference, if_match, self._try_stop)

    async def delete(self, principal: Principal, reference: str, if_match: int | None = None) -> None:
        """Delete an ended job and free its name."""
        await self._change(principal, reference, if_match, self._try_delete)

    async def _change(
        self,
        principal: Principal,
        reference: str,
        if_match: int | None,
        change: Callable[[Job, Principal], Awaitable[Job]],
    ) -> Job:
        found = await self.find(principal, reference)
        transitions.check_may_control(found, principal)
        for _ in range(MAX_TRIES):
            job = await self.bus.load_job(found.id)
            if job is None or job.deleted:
                raise NotFoundError("job", reference)
            check_if_match(if_match, job.sequence)
            try:
                return await change(job, principal)
            except ConcurrentWriteError:
                continue
        raise UnavailableError(f"job {found.id} changed {MAX_TRIES} times in between; try again")

    async def _try_stop(self, job: Job, principal: Principal) -> Job:
        event = transitions.stop(job, principal, self.clock.now(), traceparent=current_traceparent())
        if event is None:
            return job
        return await self._after(job, await self.bus.append(event, expected=job.sequence), event)

    async def _try_delete(self, job: Job, principal: Principal) -> Job:
        released, deleted = transitions.delete(job, principal, self.clock.now(), traceparent=current_traceparent())
        release = await self.names.release(job, released)
        # JOBS has nothing of a job that was archived, so the deletion is the first that it hears of it again.
        expected = job.sequence if await self.bus.history.last_state(job.id) is not None else 0
        sequence = await self.bus.append_batch([*release, Transition(deleted, expected)])
        return await self._after(job, sequence, deleted)

    # --- in common ---------------------------------------------------------------------------------------------------

    async def _after(self, job: Job | None, sequence: int, event: Event) -> Job:
        """The job after an event of our own; gives the read model a moment to have it, too."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READ_MODEL_WAIT_S):
                await self.jobs.reached(sequence)
        folded = fold(job, Recorded(sequence, subject_of(event), event))
        if folded is None:
            raise TypeError(f"{event.type} makes no job")
        return folded

    def _check_ready(self) -> None:
        if not self.jobs.caught_up.is_set():
            raise UnavailableError("the list of jobs is still being read; try again in a moment")
