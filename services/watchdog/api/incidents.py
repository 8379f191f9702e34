"""`/v1/incidents`: what was noticed in jobs and on the platform, newest first, and the evidence of hangs."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.responses import Response

from services.watchdog.adapters.incident_log import IncidentQuery, KeptIncident, KeptOutage
from services.watchdog.reading import IncidentFilters, ReadHandlers
from shared.events import EvidenceCollected, Time
from shared.http.paging import DEFAULT_LIMIT, MAX_LIMIT, Page, decode_cursor, page_of
from shared.http.routing import CurrentUser, api_router
from shared.jobs import Job


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True)


class IncidentDocument(_Answer):
    """An incident of a job."""

    job: str
    job_name: str
    attempt: int
    owner: str
    project: str
    rule: str
    failure_class: str | None = Field(alias="class")
    severity: str | None
    line: str
    before: list[str]
    replica: str | None
    action: str
    mode: Literal["active", "shadow"]
    advice: str
    at: Time

    @classmethod
    def of(cls, kept: KeptIncident, job: Job | None) -> Self:
        """The incident as the API tells it."""
        incident, replica = kept.incident, kept.incident.replica
        return cls(
            job=kept.job,
            job_name=job.name if job else "",
            attempt=kept.attempt,
            owner=job.submitted.owner_name if job else kept.owner,
            project=kept.project,
            rule=incident.rule,
            failure_class=incident.failure_class,
            severity=incident.severity,
            line=incident.line,
            before=list(incident.before),
            replica=f"{replica.role}-{replica.index}" if replica else None,
            action=incident.action,
            mode=incident.mode,
            advice=incident.advice,
            at=kept.at,
        )


class OutageDocument(_Answer):
    """A platform incident: the same rule in several jobs that share a place."""

    rule: str
    place_kind: str
    place: str
    jobs: list[str]
    line: str
    since: Time
    at: Time
    last_at: Time

    @classmethod
    def of(cls, kept: KeptOutage) -> Self:
        """The platform incident as the API tells it."""
        outage = kept.outage
        return cls(
            rule=outage.rule,
            place_kind=outage.place_kind,
            place=outage.place,
            jobs=list(kept.jobs),
            line=outage.line,
            since=outage.since,
            at=outage.at,
            last_at=kept.last_at,
        )


class EvidenceDocument(_Answer):
    """Where the evidence of one incident is, and what it says in a sentence."""

    attempt: int
    rule: str
    noticed_at: Time
    at: Time
    summary: str
    digest: str | None
    size_bytes: int
    outliers: list[str]
    problems: list[str]

    @classmethod
    def of(cls, attempt: int, evidence: EvidenceCollected) -> Self:
        """The evidence as the API tells it."""
        return cls(
            attempt=attempt,
            rule=evidence.rule,
            noticed_at=evidence.noticed_at,
            at=evidence.at,
            summary=evidence.summary,
            digest=evidence.digest,
            size_bytes=evidence.size_bytes,
            outliers=list(evidence.outliers),
            problems=list(evidence.problems),
        )


class ListQuery(BaseModel):
    """Which incidents."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    job: str | None = Field(None, max_length=128, description="id or name of a job")
    owner: str | None = Field(None, max_length=128, description="name of a user")
    project: str | None = Field(None, max_length=128)
    rule: str | None = Field(None, max_length=128)
    failure_class: str | None = Field(None, alias="class", max_length=32)
    since: AwareDatetime | None = Field(None, description="noticed at this time or later")
    until: AwareDatetime | None = Field(None, description="noticed before this time")
    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="most items to return")
    cursor: str | None = Field(None, description="`next` of the page before")

    def filters(self) -> IncidentFilters:
        """The filters, without what depends on who asks."""
        query = IncidentQuery(
            project=self.project,
            rule=self.rule,
            failure_class=self.failure_class,
            since=self.since,
            until=self.until,
            before=_record(self.cursor),
            limit=self.limit,
        )
        return IncidentFilters(query, self.job, self.owner)


class OutageQuery(BaseModel):
    """Which platform incidents."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="most items to return")
    cursor: str | None = Field(None, description="`next` of the page before")


def incidents_router(handlers: ReadHandlers) -> APIRouter:
    """The routes about incidents."""
    router = api_router()

    @router.get("/v1/incidents", tags=["incidents"])
    async def list_incidents(user: CurrentUser, query: Annotated[ListQuery, Query()]) -> Page[IncidentDocument]:
        """Incidents of jobs that you may see, newest first."""
        found = await handlers.incidents(user, query.filters())
        page = page_of(found, query.limit, lambda each: (each.sequence,))
        items = [IncidentDocument.of(each, handlers.jobs.get(each.job)) for each in page.items]
        return Page(items=items, next=page.next)

    @router.get("/v1/incidents/platform", tags=["incidents"])
    async def list_outages(user: CurrentUser, query: Annotated[OutageQuery, Query()]) -> Page[OutageDocument]:
        """The same rule in several jobs that share a node, leaf, storage or image; with the jobs that you may see."""
        found = await handlers.outages(user, _record(query.cursor), query.limit)
        page = page_of(found, query.limit, lambda each: (each.sequence,))
        return Page(items=[OutageDocument.of(each) for each in page.items], next=page.next)

    @router.get("/v1/incidents/evidence/{job}", tags=["incidents"])
    async def list_evidence(user: CurrentUser, job: str) -> Page[EvidenceDocument]:
        """The evidence that was taken of a job of yours."""
        found = await handlers.find_own(user, job)
        return Page(
            items=[EvidenceDocument.of(attempt.number, each) for attempt in found.attempts for each in attempt.evidence]
        )

    @router.get("/v1/incidents/evidence/{job}/{digest}", tags=["incidents"], response_class=Response)
    async def read_evidence(user: CurrentUser, job: str, digest: str) -> Response:
        """One bundle: stacks, process states, GPUs, collectives and last lines."""
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return Response(await handlers.evidence(user, job, digest), headers=headers, media_type="application/json")

    return router


def _record(cursor: str | None) -> int | None:
    key = decode_cursor(cursor, int)
    return int(key[0]) if key is not None else None
