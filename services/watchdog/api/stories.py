"""`/v1/incidents/stories/{job}`: what became of a job that has ended, in a few sentences."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from services.watchdog.domain.story import story_of
from services.watchdog.reading import ReadHandlers
from shared.http.routing import CurrentUser, api_router


class Story(BaseModel):
    """The story; no sentences while the job goes on."""

    job: str
    state: str
    sentences: list[str]


def stories_router(handlers: ReadHandlers) -> APIRouter:
    """The route about stories."""
    router = api_router()

    @router.get("/v1/incidents/stories/{job}", tags=["incidents"])
    async def read_story(user: CurrentUser, job: str) -> Story:
        """Why each attempt ended, what the root cause was, what was decided and what to do."""
        found = await handlers.find(user, job)
        return Story(job=found.id, state=found.state, sentences=list(story_of(found)))

    return router
