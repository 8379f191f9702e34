"""`/v1/jobs`: submit, list, look at, stop, delete; and the events of a job, at once or as they happen."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query
from starlette.responses import Response

from services.submitter.adapters.followers import Followers
from services.submitter.domain.audience import is_event_for, job_for
from services.submitter.domain.job_documents import JobDocument
from services.submitter.domain.listing import JobFilters
from services.submitter.handlers.jobs import JobHandlers
from shared.auth.principal import Principal
from shared.http.answers import json_answer
from shared.http.etag import IfMatch, etag
from shared.http.paging import Page, encode_cursor
from shared.http.routing import CurrentUser, api_router
from shared.http.sse import EventStream, LastEventId, ServerSentEvent, resume_sequence
from shared.jobs import Job, Recorded
from shared.units import MIB

JOB_MAX_BYTES = MIB


def jobs_router(handlers: JobHandlers) -> APIRouter:
    """The routes about jobs themselves."""
    router = api_router(max_body_bytes=JOB_MAX_BYTES)

    @router.post("/v1/jobs", status_code=201, response_model=JobDocument)
    async def submit(
        user: CurrentUser,
        document: Annotated[Any, Body(description="the job as kind: TrainingJob")],
        idempotency_key: Annotated[str | None, Header(alias="Idempotency-Key")] = None,
    ) -> Response:
        """Submit a job; the same key with the same document is the same job."""
        job = await handlers.submit(user, document, idempotency_key)
        return _job_answer(user, job, status=201, location=f"/v1/jobs/{job.id}")

    @router.get("/v1/jobs", response_model=Page[JobDocument])
    async def list_jobs(user: CurrentUser, filters: Annotated[JobFilters, Query()]) -> Response:
        """Jobs that you may see, newest first; without placements and replicas."""
        page = handlers.page(user, filters)
        items = [JobDocument.of(job, detailed=False) for job in page.jobs]
        cursor = encode_cursor(page.next_after) if page.next_after else None
        return json_answer(Page[JobDocument](items=items, next=cursor))

    @router.get("/v1/jobs/{job}", response_model=JobDocument)
    async def get_job(user: CurrentUser, job: str) -> Response:
        """One job, by id or name."""
        return _job_answer(user, await handlers.find(user, job))

    @router.post("/v1/jobs/{job}/stop", response_model=JobDocument)
    async def stop_job(user: CurrentUser, job: str, if_match: IfMatch) -> Response:
        """Ask for the end of a job; it has come when the state says so."""
        return _job_answer(user, await handlers.stop(user, job, if_match))

    @router.delete("/v1/jobs/{job}", status_code=204)
    async def delete_job(user: CurrentUser, job: str, if_match: IfMatch) -> Response:
        """Delete an ended job; its name is free then."""
        await handlers.delete(user, job, if_match)
        return Response(status_code=204)

    return router


def job_events_router(handlers: JobHandlers, followers: Followers) -> APIRouter:
    """The route about the events of a job."""
    router = api_router()

    @router.get("/v1/jobs/{job}/events")
    async def job_events(
        user: CurrentUser,
        job: str,
        follow: Annotated[bool, Query(description="stream events until the job has ended")] = False,  # noqa: FBT002  # a query value
        accept: Annotated[str, Header()] = "",
        last_event_id: LastEventId = None,
    ) -> Response:
        """All events so far; as server-sent events with `follow=true` or `Accept: text/event-stream`."""
        if follow or "text/event-stream" in accept:
            found = await handlers.find(user, job)
            return EventStream(_stream(followers, user, found.id, resume_sequence(last_event_id)))
        history = await handlers.history(user, job)
        body = {"items": [event_document(each) for each in history if is_event_for(user, each)], "next": None}
        return Response(json.dumps(body, ensure_ascii=False), media_type="application/json")

    return router


def event_document(recorded: Recorded) -> dict[str, Any]:
    """A CloudEvent as JSON, with the sequence that the stream gave it."""
    return {**recorded.event.model_dump(mode="json", by_alias=True, exclude_none=True), "sequence": recorded.sequence}


async def _stream(followers: Followers, user: Principal, job: str, after: int) -> AsyncIterator[ServerSentEvent]:
    async for recorded in followers.follow(job, after):
        if not is_event_for(user, recorded):
            continue
        text = json.dumps(event_document(recorded), ensure_ascii=False)
        yield ServerSentEvent(text, id=str(recorded.sequence))
    yield ServerSentEvent("{}", event="end")


def _job_answer(user: Principal, job: Job, *, status: int = 200, location: str = "") -> Response:
    headers = {"ETag": etag(job.sequence)} | ({"Location": location} if location else {})
    return json_answer(JobDocument.of(job_for(user, job)), status=status, headers=headers)
