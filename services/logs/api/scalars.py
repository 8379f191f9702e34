"""`/v1/scalars`: the curves that a job wrote for TensorBoard, in columns, as CSV, or as they grow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from services.logs.domain.curves import Wanted
from services.logs.scalar_documents import ScalarPoints, csv_pieces, curve_document, summary_document
from services.logs.scalar_handlers import ScalarHandlers
from shared.http.routing import CurrentUser, api_router
from shared.http.sse import EventStream

POINTS = 1000
POINTS_MIN = 5
POINTS_MAX = 50_000
TAG_MAX_CHARS = 1024
_ATTEMPTS = r"^(all|[1-9]\d{0,6}(,[1-9]\d{0,6}){0,99})$"


class CurvesQuery(BaseModel):
    """Which curves."""

    model_config = ConfigDict(extra="forbid")

    tag: list[Annotated[str, Field(max_length=TAG_MAX_CHARS)]] = Field(
        [], max_length=1000, description="may be repeated; default: all tags"
    )
    run: str | None = Field(None, max_length=TAG_MAX_CHARS, description="directory of the run; default: all runs")
    attempt: str | None = Field(
        None,
        pattern=_ATTEMPTS,
        description="a number, several with commas between, or 'all'; default: the last one that has any",
    )

    @property
    def wanted(self) -> Wanted:
        """The query in the domain's words."""
        return Wanted(_attempts(self.attempt), frozenset(self.tag), self.run)


class PointsQuery(CurvesQuery):
    """Which curves, and how many points of each."""

    points: int = Field(POINTS, ge=POINTS_MIN, le=POINTS_MAX, description="at most so many of each curve")


class TagSummary(BaseModel):
    """What is told of a curve without its points."""

    attempt: int
    run: str
    tag: str
    count: int
    last_step: int = Field(alias="lastStep")
    last_time: str | None = Field(alias="lastTime")
    last_value: float | None = Field(alias="lastValue")
    lowest: float | None
    highest: float | None


class Tags(BaseModel):
    """All curves of a job."""

    items: list[TagSummary]


class Curves(BaseModel):
    """Curves with their points."""

    tags: list[ScalarPoints]


def scalars_router(handlers: ScalarHandlers) -> APIRouter:
    """The routes about scalars."""
    router = api_router()

    @router.get("/v1/scalars/{job}", tags=["scalars"], response_model=Curves)
    async def read_scalars(user: CurrentUser, job: str, query: Annotated[PointsQuery, Query()]) -> Response:
        """Points of each curve, thinned so that extremes stay; a value that is no finite number is null."""
        curves = await handlers.curves(user, job, query.wanted, query.points)
        return _json({"tags": [curve_document(curve) for curve in curves]})

    @router.get("/v1/scalars/{job}/tags", tags=["scalars"], response_model=Tags)
    async def list_tags(user: CurrentUser, job: str, query: Annotated[CurvesQuery, Query()]) -> Response:
        """Which curves there are, with the last value and the extremes of each."""
        return _json({"items": [summary_document(each) for each in await handlers.tags(user, job, query.wanted)]})

    @router.get("/v1/scalars/{job}/csv", tags=["scalars"], response_class=Response)
    async def read_csv(user: CurrentUser, job: str, query: Annotated[CurvesQuery, Query()]) -> Response:
        """Every point as a line of CSV: attempt, run, tag, step, time, value."""
        curves = await handlers.curves(user, job, query.wanted, None)
        headers = {"Content-Disposition": 'attachment; filename="scalars.csv"', "X-Content-Type-Options": "nosniff"}
        return StreamingResponse(csv_pieces(curves), media_type="text/csv; charset=utf-8", headers=headers)

    @router.get("/v1/scalars/{job}/follow", tags=["scalars"], response_class=EventStream)
    async def follow_scalars(user: CurrentUser, job: str, query: Annotated[PointsQuery, Query()]) -> Response:
        """Events `curves` (all there is, thinned), `points` (what came since) and `end`.

        A client that comes back gets a fresh `curves`, so nothing has to be resumed.
        """
        return EventStream(await handlers.follow(user, job, query.wanted, query.points))

    return router


def _attempts(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    return frozenset() if text == "all" else frozenset(map(int, text.split(",")))


def _json(document: dict[str, Iterable[Any]]) -> JSONResponse:
    return JSONResponse(document, headers={"Cache-Control": "no-store"})
