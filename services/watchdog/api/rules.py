"""`/v1/rules`: the failure catalogue with what admins added, and for admins how often each rule was found."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body
from starlette.responses import Response

from services.watchdog.ruling import ListedRule, RuleHandlers
from shared.catalog import Entry
from shared.clock import rfc3339
from shared.http.answers import PageQuery, entry_answer
from shared.http.etag import IfMatch, etag
from shared.http.paging import decode_cursor, page_of
from shared.http.routing import CurrentUser, api_router
from shared.jobspec.models import API_VERSION

Json = dict[str, Any]


def rules_router(handlers: RuleHandlers) -> APIRouter:
    """The routes about rules."""
    router = api_router()

    @router.get("/v1/rules", tags=["rules"])
    async def list_rules(user: CurrentUser, query: PageQuery) -> Response:
        """All rules in the order in which they win; those that are being tried are for admins."""
        numbered = list(enumerate(await handlers.all(user)))
        after = decode_cursor(query.cursor, int)
        behind = [each for each in numbered if after is None or each[0] > int(after[0])]
        page = page_of(behind[: query.limit + 1], query.limit, lambda each: (each[0],))
        return _json({"items": [_document(rule) for _, rule in page.items], "next": page.next})

    @router.get("/v1/rules/{name:path}", tags=["rules"])
    async def get_rule(user: CurrentUser, name: str) -> Response:
        """One rule."""
        found = await handlers.get(user, name)
        headers = {} if found.revision is None else {"ETag": etag(found.revision)}
        return Response(json.dumps(_document(found), ensure_ascii=False), 200, headers, "application/json")

    @router.put("/v1/rules/{name}", tags=["rules"])
    async def put_rule(user: CurrentUser, name: str, document: Annotated[Any, Body()], if_match: IfMatch) -> Response:
        """Add or change a rule, as an admin; it is looked for at once."""
        written = await handlers.put(user, name, document, if_match)
        return entry_answer(written.entry, status=201 if written.created else 200)

    @router.delete("/v1/rules/{name}", status_code=204, tags=["rules"])
    async def delete_rule(user: CurrentUser, name: str, if_match: IfMatch) -> Response:
        """Delete a rule that an admin added."""
        await handlers.delete(user, name, if_match)
        return Response(status_code=204)

    return router


def _json(document: Json) -> Response:
    return Response(json.dumps(document, ensure_ascii=False), media_type="application/json")


def _document(listed: ListedRule) -> Json:
    status = {"origin": listed.origin, "mode": listed.mode, "meaning": listed.would} | _counts(listed)
    if listed.document is not None and listed.revision is not None:
        return {**Entry(listed.document, listed.revision).shown(), "status": status}
    spec = listed.rule.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"id"})
    metadata = {"name": listed.rule.id}
    return {"apiVersion": API_VERSION, "kind": "Rule", "metadata": metadata, "spec": spec, "status": status}


def _counts(listed: ListedRule) -> Json:
    count = listed.count
    if count is None:
        return {}
    return {"incidents": count.incidents, "jobs": count.jobs, "lastAt": rfc3339(count.last_at)}
