"""`/v1/scalars`: the curves that a job wrote for TensorBoard."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from services.logs.handlers import LogHandlers
from services.logs.scalars import Curve, Point
from shared.clock import rfc3339
from shared.http.routing import CurrentUser, api_router


class ScalarsQuery(BaseModel):
    """Which curves."""

    model_config = ConfigDict(extra="forbid")

    tag: str | None = Field(None, max_length=1024, description="default: all tags")
    attempt: int | None = Field(None, ge=1, description="default: the last attempt that has any")


def scalars_router(handlers: LogHandlers) -> APIRouter:
    """The route about scalars."""
    router = api_router()

    @router.get("/v1/scalars/{job}", tags=["logs"])
    async def read_scalars(user: CurrentUser, job: str, query: Annotated[ScalarsQuery, Query()]) -> Response:
        """Points of each tag and run; a value that is no finite number is null."""
        curves = await handlers.curves(user, job, query.attempt, query.tag)
        return JSONResponse({"tags": [_curve_document(curve) for curve in curves]})

    return router


def _curve_document(curve: Curve) -> dict[str, Any]:
    return {
        "tag": curve.tag,
        "run": curve.run,
        "attempt": curve.attempt,
        "count": curve.count,
        "points": [_point_document(point) for point in curve.points],
    }


def _point_document(point: Point) -> dict[str, Any]:
    return {"step": point.step, "time": _time(point.time_s), "value": point.value}


def _time(seconds: float) -> str | None:
    """RFC 3339; None where the file says something that is no time."""
    try:
        return rfc3339(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, OSError, ValueError):
        return None
