"""`/v1/assets`: storages, datasets, models, images, code sets and projects, and uploads of code."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from services.submitter.handlers.assets import AssetHandlers
from services.submitter.handlers.uploads import UPLOAD_MAX_BYTES, Upload, UploadHandlers
from shared.errors import UnsupportedMediaTypeError
from shared.http.answers import PageQuery, entries_answer, entry_answer, json_answer
from shared.http.etag import IfMatch
from shared.http.routing import CurrentUser, api_router

_GZIP_TYPES: Final = ("application/gzip", "application/x-gzip")
_UPLOAD_BODY: Final = {"requestBody": {"required": True, "content": {"application/gzip": {}}}}


def assets_router(handlers: AssetHandlers) -> APIRouter:
    """The routes about asset documents."""
    router = api_router()

    @router.get("/v1/assets/{kind}")
    async def list_assets(user: CurrentUser, kind: str, query: PageQuery) -> Response:
        """Assets of a kind that you may use, by name."""
        return entries_answer(await handlers.visible(user, kind), query)

    @router.get("/v1/assets/{kind}/{name}")
    async def get_asset(user: CurrentUser, kind: str, name: str) -> Response:
        """One asset."""
        return entry_answer(await handlers.get(user, kind, name))

    @router.put("/v1/assets/{kind}/{name}")
    async def put_asset(
        user: CurrentUser, kind: str, name: str, document: Annotated[Any, Body()], if_match: IfMatch
    ) -> Response:
        """Make or change an asset."""
        written = await handlers.put(user, kind, name, document, if_match)
        return entry_answer(written.entry, status=201 if written.created else 200)

    @router.delete("/v1/assets/{kind}/{name}", status_code=204)
    async def delete_asset(user: CurrentUser, kind: str, name: str, if_match: IfMatch) -> Response:
        """Delete an asset."""
        await handlers.delete(user, kind, name, if_match)
        return Response(status_code=204)

    return router


def uploads_router(handlers: UploadHandlers) -> APIRouter:
    """The route that takes archives of code."""
    router = api_router(max_body_bytes=UPLOAD_MAX_BYTES)

    @router.post("/v1/assets/uploads", status_code=201, response_model=Upload, openapi_extra=_UPLOAD_BODY)
    async def upload(_user: CurrentUser, request: Request) -> Response:
        """Keep a tar.gz of code; its digest is what `code.upload` of a job names."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in _GZIP_TYPES:
            raise UnsupportedMediaTypeError(
                f"send the gzipped tar file as application/gzip, not as {media_type[:80]!r}"
            )
        return json_answer(await handlers.receive(request.stream()), status=201)

    return router
