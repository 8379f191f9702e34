"""Shapes of answers that several routes share: JSON of a model with its ETag, catalog documents and their pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from shared.catalog import Entry
from shared.http.etag import etag
from shared.http.paging import DEFAULT_LIMIT, MAX_LIMIT, decode_cursor, page_of


class CatalogPageQuery(BaseModel):
    """Which page of a list of catalog documents."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="most items to return")
    cursor: str | None = Field(None, description="`next` of the page before")


PageQuery = Annotated[CatalogPageQuery, Query()]


def json_answer(model: BaseModel, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The model as JSON, written once and not validated again."""
    return Response(model.model_dump_json(), status, headers, "application/json")


def entry_answer(entry: Entry[Any], *, status: int = 200) -> Response:
    """A catalog document with its version."""
    body = json.dumps(entry.shown(), ensure_ascii=False)
    return Response(body, status, {"ETag": etag(entry.revision)}, "application/json")


def entries_answer(entries: Sequence[Entry[Any]], query: CatalogPageQuery) -> Response:
    """A page of catalog documents, which are ordered by name."""
    after = decode_cursor(query.cursor, str)
    behind = [entry for entry in entries if after is None or entry.document.name > str(after[0])]
    page = page_of(behind[: query.limit + 1], query.limit, lambda entry: (entry.document.name,))
    body = {"items": [entry.shown() for entry in page.items], "next": page.next}
    return Response(json.dumps(body, ensure_ascii=False), media_type="application/json")
