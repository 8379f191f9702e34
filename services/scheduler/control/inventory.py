"""Asking the engine what it has, and telling others: the node registry, the cluster's document, the defaults."""

from __future__ import annotations

from typing import Any, Final

import structlog

from services.scheduler.control.node_registry import NodeRegistry
from services.scheduler.domain.defaults import default_documents
from services.scheduler.domain.nodes import Node
from services.scheduler.ports import Engine, Inventory, NodeOffer
from shared.bus import BusUnavailableError, ConcurrentWriteError
from shared.catalog import CatalogDocument, CatalogStore, CatalogWatch, Cluster
from shared.clock import Clock

REFRESH_S: Final = 10.0


class InventoryKeeper:
    """Asks the engine for its nodes, now and every ten seconds."""

    def __init__(
        self,
        *,
        engine: Engine,
        cluster: str,
        catalog: CatalogWatch,
        store: CatalogStore,
        clock: Clock,
        registry: NodeRegistry,
    ) -> None:
        self._engine = engine
        self._cluster = cluster
        self._catalog = catalog
        self._store = store
        self._clock = clock
        self._registry = registry
        self._known: Inventory | None = None
        self._told: Cluster | None = None
        self._log = structlog.get_logger(service="scheduler", cluster=cluster)

    async def run(self) -> None:
        """Refresh for ever."""
        while True:
            await self._clock.sleep(REFRESH_S)
            try:
                await self.refresh()
            except Exception:  # noqa: BLE001  # the next round brings another try
                self._log.exception("inventory_failed")

    async def refresh(self) -> None:
        """Take over what the engine has now; whatever cannot be told while NATS is away is told the next time."""
        inventory = await self._engine.inventory()
        nodes = [_node(offer, self._cluster) for offer in inventory.nodes]
        if inventory != self._known:
            self._registry.offer(nodes)
        try:
            await self._keep_cluster(inventory)
            if inventory != self._known:
                await self._make_defaults(nodes)
        except (BusUnavailableError, ConcurrentWriteError) as error:
            self._log.warning("inventory_not_told", reason=error.message)
        else:
            self._known = inventory

    async def _make_defaults(self, nodes: list[Node]) -> None:
        view = await self._catalog.refresh()
        for document in default_documents(self._cluster, nodes):
            if not view.revision(type(document), document.name):
                await self._make(document)
        await self._catalog.refresh()

    async def _keep_cluster(self, inventory: Inventory) -> None:
        """Have the cluster's document say what the engine can do and how large its nodes are."""
        wanted = _cluster_document(self._cluster, inventory, self._registry.shapes())
        if wanted == self._told:
            return
        view = await self._catalog.refresh()
        if view.get(Cluster, self._cluster) != wanted:
            await self._store.put(wanted, expected=view.revision(Cluster, self._cluster))
        self._told = wanted

    async def _make(self, document: CatalogDocument) -> None:
        try:
            await self._store.put(document, expected=0)
            self._log.info("default_made", kind=document.SINGULAR, name=document.name)
        except ConcurrentWriteError:
            self._log.debug("default_exists", kind=document.SINGULAR, name=document.name)


def _node(offer: NodeOffer, cluster: str) -> Node:
    return Node(
        id=offer.id,
        name=offer.name,
        cluster=cluster,
        cpu_m=offer.cpu_m,
        memory_bytes=offer.memory_bytes,
        devices=offer.devices,
        labels=dict(offer.facts),
        state=offer.state,
        others_cpu_m=offer.others_cpu_m,
        others_memory_bytes=offer.others_memory_bytes,
        others_devices=offer.others_devices,
        because=offer.because,
    )


def _cluster_document(name: str, inventory: Inventory, shapes: list[dict[str, Any]]) -> Cluster:
    mounts = {"mounts": not inventory.no_mounts_because, "mountsHint": inventory.no_mounts_because}
    spec = {**mounts, "schemes": list(inventory.schemes), "engine": inventory.engine, "shapes": shapes}
    document = {"apiVersion": "trainmaster/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
    return Cluster.model_validate(document)
