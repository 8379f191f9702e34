from __future__ import annotations

from typing import Annotated

import pytest
from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict

from shared.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    TooManyRequestsError,
    TrainmasterError,
    UnavailableError,
    Violation,
)
from shared.http.app import create_app
from shared.http.routing import api_router
from tests.support.http import KnownTokens, calling

RAISED: dict[str, Exception] = {
    "not-found": NotFoundError("job", "x"),
    "forbidden": ForbiddenError("pool team-a is dedicated"),
    "conflict": ConflictError("it has changed", current=7),
    "invalid-input": InvalidInputError((Violation("/spec/roles", "too-many", "at most 10 roles"),)),
    "too-many-requests": TooManyRequestsError("wait", retry_after_s=42),
    "unavailable": UnavailableError("NATS is away"),
    "internal": TrainmasterError("the secret inner state"),
    "unexpected": RuntimeError("the secret inner state"),
}


class Role(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str


class Spec(BaseModel):
    model_config = ConfigDict(extra="forbid")

    roles: list[Role]


@pytest.fixture
def app() -> FastAPI:
    router = api_router(public=True)

    @router.get("/v1/raise/{code}")
    async def fail(code: str) -> None:
        raise RAISED[code]

    @router.get("/v1/list/{index}")
    async def listed(index: int, limit: Annotated[int, Query(ge=1, le=10)] = 1) -> int:
        return index + limit

    @router.post("/v1/specs")
    async def specs(spec: Spec) -> Spec:
        return spec

    return create_app(service="things", title="Things", routers=[router], auth=KnownTokens())


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("not-found", 404),
        ("forbidden", 403),
        ("conflict", 409),
        ("invalid-input", 422),
        ("too-many-requests", 429),
        ("unavailable", 503),
        ("internal", 500),
    ],
)
async def test_an_error_is_a_problem_document_with_its_code_and_status(app: FastAPI, code: str, status: int) -> None:
    async with calling(app) as client:
        response = await client.get(f"/v1/raise/{code}", headers={"X-Request-Id": "abc-1"})
    document = response.json()
    assert response.status_code == document["status"] == status
    assert response.headers["Content-Type"] == "application/problem+json"
    assert document["code"] == code
    assert document["type"] == f"urn:trainmaster:problem:{code}"
    assert document["request_id"] == response.headers["X-Request-Id"] == "abc-1"


@pytest.mark.parametrize("code", ["internal", "unexpected"])
async def test_an_internal_error_tells_the_request_id_and_nothing_else(app: FastAPI, code: str) -> None:
    async with calling(app) as client:
        response = await client.get(f"/v1/raise/{code}")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.json()["code"] == "internal"
    assert response.json()["request_id"] == response.headers["X-Request-Id"]


async def test_every_violation_is_listed_with_pointer_and_code(app: FastAPI) -> None:
    async with calling(app) as client:
        response = await client.post("/v1/specs", json={"roles": [{"name": 1, "x/y~z": 2}, {}]})
    found = {(error["pointer"], error["code"]) for error in response.json()["errors"]}
    assert found == {
        ("/roles/0/name", "wrong-type"),
        ("/roles/0/x~1y~0z", "unknown-key"),
        ("/roles/1/name", "required"),
    }
    assert all(error["message"] for error in response.json()["errors"])


async def test_query_and_path_values_are_named_by_their_place(app: FastAPI) -> None:
    async with calling(app) as client:
        response = await client.get("/v1/list/one?limit=99")
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == ["/path/index", "/query/limit"]


async def test_an_unknown_path_is_a_problem_that_names_it(app: FastAPI) -> None:
    async with calling(app) as client:
        response = await client.get("/v1/nowhere")
    assert (response.status_code, response.json()["code"]) == (404, "not-found")
    assert response.json()["detail"] == "there is nothing at /v1/nowhere"


async def test_a_wrong_method_is_a_problem_that_names_the_right_ones(app: FastAPI) -> None:
    async with calling(app) as client:
        response = await client.delete("/v1/specs")
    assert (response.status_code, response.json()["code"]) == (405, "method-not-allowed")
    assert response.headers["Allow"] == "POST"
    assert "POST" in response.json()["detail"]


async def test_waiting_is_told_in_retry_after(app: FastAPI) -> None:
    async with calling(app) as client:
        assert (await client.get("/v1/raise/too-many-requests")).headers["Retry-After"] == "42"
        assert int((await client.get("/v1/raise/unavailable")).headers["Retry-After"]) >= 1


async def test_a_conflict_tells_the_present_version(app: FastAPI) -> None:
    async with calling(app) as client:
        assert (await client.get("/v1/raise/conflict")).json()["current"] == 7
