"""`/v1/pools` and `/v1/instance-types`: JSON documents as `trainmaster apply` sends them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Response

from services.scheduler.control.world import World
from services.scheduler.domain.views import pool_status
from services.scheduler.handlers.offers import OfferHandlers
from shared.catalog import Entry, Pool
from shared.catalog.writer import Written
from shared.http.etag import IfMatch, etag
from shared.http.paging import Page
from shared.http.routing import CurrentUser, api_router

Json = dict[str, Any]
JsonBody = Annotated[Any, Body()]


def pools_router(handlers: OfferHandlers, world: World) -> APIRouter:
    """Pools, with what their nodes have free."""
    router = api_router()

    def shown(entry: Entry[Pool]) -> Json:
        status = pool_status(world.pools.get(entry.document.name), world.ledger.rooms.values())
        return entry.shown() | {"status": status}

    @router.get("/v1/pools", tags=["pools"])
    async def list_pools(user: CurrentUser) -> Page[Json]:
        """The pools that you may use."""
        return Page(items=[shown(entry) for entry in await handlers.pools(user)])

    @router.get("/v1/pools/{name}", tags=["pools"])
    async def get_pool(user: CurrentUser, name: str, response: Response) -> Json:
        """One pool."""
        entry = await handlers.pool(user, name)
        response.headers["ETag"] = etag(entry.revision)
        return shown(entry)

    @router.put("/v1/pools/{name}", tags=["pools"])
    async def put_pool(user: CurrentUser, name: str, body: JsonBody, if_match: IfMatch, response: Response) -> Json:
        """Make or change a pool; admins only."""
        written = await handlers.put_pool(user, name, body, if_match=if_match)
        _describe(written, response)
        return shown(written.entry)

    @router.delete("/v1/pools/{name}", tags=["pools"], status_code=204)
    async def delete_pool(user: CurrentUser, name: str, if_match: IfMatch) -> None:
        """Remove a pool that nobody needs; admins only."""
        await handlers.delete_pool(user, name, if_match=if_match)

    return router


def instance_types_router(handlers: OfferHandlers) -> APIRouter:
    """Instance types."""
    router = api_router()

    @router.get("/v1/instance-types", tags=["instance types"])
    async def list_instance_types(user: CurrentUser) -> Page[Json]:
        """The instance types of the pools that you may use."""
        return Page(items=[entry.shown() for entry in await handlers.instance_types(user)])

    @router.get("/v1/instance-types/{name}", tags=["instance types"])
    async def get_instance_type(user: CurrentUser, name: str, response: Response) -> Json:
        """One instance type."""
        entry = await handlers.instance_type(user, name)
        response.headers["ETag"] = etag(entry.revision)
        return entry.shown()

    @router.put("/v1/instance-types/{name}", tags=["instance types"])
    async def put_instance_type(
        user: CurrentUser, name: str, body: JsonBody, if_match: IfMatch, response: Response
    ) -> Json:
        """Make or change an instance type; admins only."""
        written = await handlers.put_instance_type(user, name, body, if_match=if_match)
        _describe(written, response)
        return written.entry.shown()

    @router.delete("/v1/instance-types/{name}", tags=["instance types"], status_code=204)
    async def delete_instance_type(user: CurrentUser, name: str, if_match: IfMatch) -> None:
        """Remove an instance type; admins only."""
        await handlers.delete_instance_type(user, name, if_match=if_match)

    return router


def _describe(written: Written[Any], response: Response) -> None:
    response.status_code = 201 if written.created else 200
    response.headers["ETag"] = etag(written.entry.revision)
