from __future__ import annotations

import pytest

from shared.http.openapi import merged


def document(path: str, **schemas: object) -> dict[str, object]:
    return {"paths": {path: {}}, "components": {"schemas": schemas}}


def test_the_union_has_all_paths_and_schemas_once() -> None:
    union = merged([document("/v1/a", Page={"x": 1}), document("/v1/b", Page={"x": 1}, Job={"y": 2})], "All")
    assert set(union["paths"]) == {"/v1/a", "/v1/b"}
    assert union["components"]["schemas"] == {"Page": {"x": 1}, "Job": {"y": 2}}


def test_one_name_with_two_meanings_is_refused() -> None:
    with pytest.raises(ValueError, match="two services mean different things by the schema Page"):
        merged([document("/v1/a", Page={"x": 1}), document("/v1/b", Page={"x": 2})], "All")
