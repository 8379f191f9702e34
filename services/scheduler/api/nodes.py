"""`/v1/nodes`: what there is, what of it is free, what state it is in and why; and an admin's orders."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, StringConstraints

from services.scheduler.domain.nodes import NodeState
from services.scheduler.domain.views import node_document
from services.scheduler.handlers.nodes import Holders, NodeHandlers, SeenNode
from shared.http.paging import Page
from shared.http.routing import CurrentUser, api_router
from shared.jobs import Recorded

Json = dict[str, Any]

_REASON_MAX: Final = 1024


class Order(BaseModel):
    """Why an admin orders something about a node."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_REASON_MAX)]


class Restoration(Order):
    """Why a node is to be used again; `force`: though it was found bad, and without a test."""

    force: bool = False


def nodes_router(handlers: NodeHandlers) -> APIRouter:
    """Nodes of the pools that the asker may use."""
    router = api_router()

    @router.get("/v1/nodes", tags=["nodes"])
    async def list_nodes(user: CurrentUser) -> Page[Json]:
        """Nodes with what they have, what of it is free, and the state that they are in."""
        return Page(items=[_document(seen) for seen in handlers.nodes(user)])

    @router.get("/v1/nodes/{name}", tags=["nodes"])
    async def get_node(user: CurrentUser, name: str) -> Json:
        """One node, by name or id, with the jobs on it that you may see."""
        seen = handlers.node(user, name)
        return _with_holders(_document(seen), handlers.holders(user, seen.room.node.id))

    @router.get("/v1/nodes/{name}/events", tags=["nodes"])
    async def node_events(user: CurrentUser, name: str) -> Page[Json]:
        """What happened to a node, who ordered what and why; admins only."""
        return Page(items=[_event(recorded) for recorded in await handlers.history(user, name)])

    @router.post("/v1/nodes/{name}/drain", tags=["nodes"])
    async def drain(user: CurrentUser, name: str, order: Order) -> Json:
        """Place nothing new on a node, what runs there goes on; admins only."""
        return _document(await handlers.order(user, name, NodeState.DRAINING, order.reason))

    @router.post("/v1/nodes/{name}/quarantine", tags=["nodes"])
    async def quarantine(user: CurrentUser, name: str, order: Order) -> Json:
        """Place nothing on a node because something is wrong with it; admins only."""
        return _document(await handlers.order(user, name, NodeState.QUARANTINED, order.reason))

    @router.post("/v1/nodes/{name}/restore", tags=["nodes"])
    async def restore(user: CurrentUser, name: str, order: Restoration) -> Json:
        """Use a node again; one that was found bad is tested first, unless that is forced; admins only."""
        return _document(await handlers.restore(user, name, order.reason, force=order.force))

    return router


def _document(seen: SeenNode) -> Json:
    return node_document(seen.life, seen.room, seen.pools)


def _with_holders(document: Json, holders: Holders) -> Json:
    jobs = [
        {"job": held.job.id, "name": held.job.name, "project": held.job.project, "replicas": held.replicas}
        for held in holders.jobs
    ]
    status = document["status"] | {"jobs": jobs, "otherReplicas": holders.other_replicas}
    return document | {"status": status}


def _event(recorded: Recorded) -> Json:
    return {**recorded.event.model_dump(mode="json", by_alias=True, exclude_none=True), "sequence": recorded.sequence}
