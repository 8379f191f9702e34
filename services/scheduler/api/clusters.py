"""`/v1/clusters`: where jobs can run, and how much there is of it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from services.scheduler.control.world import World
from services.scheduler.domain.views import cluster_document
from shared.catalog import CatalogWatch, Cluster
from shared.errors import NotFoundError
from shared.http.paging import Page
from shared.http.routing import CurrentUser, api_router

Json = dict[str, Any]


def clusters_router(catalog: CatalogWatch, world: World) -> APIRouter:
    """The clusters, for everybody; what nodes they have is told by `/v1/nodes`."""
    router = api_router()

    async def documents() -> dict[str, Json]:
        view = await catalog.refresh()
        rooms = list(world.ledger.rooms.values())
        found = sorted(view.all(Cluster), key=lambda cluster: (not cluster.spec.first, cluster.name))
        return {cluster.name: cluster_document(cluster, rooms) for cluster in found}

    @router.get("/v1/clusters", tags=["clusters"])
    async def list_clusters(_user: CurrentUser) -> Page[Json]:
        """All clusters; jobs that name none get the first one."""
        return Page(items=list((await documents()).values()))

    @router.get("/v1/clusters/{name}", tags=["clusters"])
    async def get_cluster(_user: CurrentUser, name: str) -> Json:
        """One cluster."""
        found = (await documents()).get(name)
        if found is None:
            raise NotFoundError("cluster", name)
        return found

    return router
