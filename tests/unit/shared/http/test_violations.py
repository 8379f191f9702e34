"""What is wrong with a query, in words of our own."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import pytest
from fastapi import FastAPI, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from shared.http.app import create_app
from shared.http.routing import api_router
from tests.support.http import KnownTokens, calling


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: int = Field(1, ge=1, le=10)
    colour: tuple[Colour, ...] = ()
    follow: bool = False
    since: AwareDatetime | None = None
    name: str = Field("x", min_length=1, max_length=3)
    share: float = Field(0.5, gt=0, lt=1)


@pytest.fixture
def app() -> FastAPI:
    router = api_router(public=True)

    @router.get("/v1/things")
    async def things(asked: Annotated[Asked, Query()]) -> int:
        return asked.limit

    @router.get("/v1/pages")
    async def pages(page: int) -> int:
        return page

    return create_app(service="things", title="Things", routers=[router], auth=KnownTokens())


@pytest.mark.parametrize(
    ("query", "pointer", "code", "sentence"),
    [
        ("limit=99", "/query/limit", "out-of-range", "'99' is out of range; give at most 10"),
        ("limit=0", "/query/limit", "out-of-range", "'0' is out of range; give at least 1"),
        ("limit=many", "/query/limit", "wrong-type", "'many' is not what is taken here; give an integer"),
        ("colour=green", "/query/colour/0", "not-a-choice", "'green' is not among the choices; give 'red' or 'blue'"),
        ("follow=perhaps", "/query/follow", "wrong-type", "'perhaps' is not what is taken here; give true or false"),
        ("since=then", "/query/since", "wrong-type", "give a time such as 2026-01-31T12:00:00Z"),
        ("since=2026-01-31T12:00:00", "/query/since", "wrong-type", "give a time with its zone"),
        ("name=long-one", "/query/name", "out-of-range", "'long-one' is out of range; give at most 3 characters"),
        ("name=", "/query/name", "out-of-range", "'' is empty; give at least 1 character"),
        ("share=1", "/query/share", "out-of-range", "'1' is out of range; give less than 1"),
        ("share=0", "/query/share", "out-of-range", "'0' is out of range; give more than 0"),
        ("other=1", "/query/other", "unknown-key", "'other' is nothing that is taken here; leave it out"),
    ],
)
async def test_a_wrong_value_is_told_with_what_would_be_right(
    app: FastAPI, query: str, pointer: str, code: str, sentence: str
) -> None:
    async with calling(app) as client:
        answer = await client.get(f"/v1/things?{query}")
    [error] = answer.json()["errors"]
    assert (error["pointer"], error["code"]) == (pointer, code)
    assert sentence in error["message"]


async def test_a_missing_value_is_named(app: FastAPI) -> None:
    async with calling(app) as client:
        [error] = (await client.get("/v1/pages")).json()["errors"]
    assert error == {"pointer": "/query/page", "code": "required", "message": "page is missing"}
