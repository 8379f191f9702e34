from __future__ import annotations

import pytest

from shared.http.app import create_app
from shared.http.openapi import merged
from shared.http.routing import api_router
from shared.http.sse import EventStream
from tests.support.http import KnownTokens


def document(path: str, **schemas: object) -> dict[str, object]:
    return {"paths": {path: {}}, "components": {"schemas": schemas}}


def test_the_union_has_all_paths_and_schemas_once() -> None:
    union = merged([document("/v1/a", Page={"x": 1}), document("/v1/b", Page={"x": 1}, Job={"y": 2})], "All")
    assert set(union["paths"]) == {"/v1/a", "/v1/b"}
    assert union["components"]["schemas"] == {"Page": {"x": 1}, "Job": {"y": 2}}


def test_one_name_with_two_meanings_is_refused() -> None:
    with pytest.raises(ValueError, match="two services mean different things by the schema Page"):
        merged([document("/v1/a", Page={"x": 1}), document("/v1/b", Page={"x": 2})], "All")


def test_a_route_whose_answer_is_an_event_stream_is_documented() -> None:
    router = api_router()

    @router.get("/v1/logs/{job}/follow", response_class=EventStream)
    async def follow(job: str) -> EventStream:
        raise NotImplementedError(job)

    app = create_app(service="logs", title="Logs", routers=[router], auth=KnownTokens())
    answers = app.openapi()["paths"]["/v1/logs/{job}/follow"]["get"]["responses"]
    assert "text/event-stream" in answers["200"]["content"]
