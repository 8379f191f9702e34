"""Asking a cluster's engine what it has, and telling others: the node registry, the cluster's document, the defaults.

Each cluster has a keeper of its own, so that one whose engine does not answer keeps no other from being known.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import structlog

from services.scheduler.control.node_registry import NodeRegistry
from services.scheduler.domain.defaults import default_documents
from services.scheduler.domain.nodes import Node
from services.scheduler.ports.engine import Engine, Inventory, NodeOffer
from shared.bus import BusUnavailableError, ConcurrentWriteError
from shared.catalog import Catalog, CatalogDocument, CatalogStore, CatalogWatch, Cluster, InstanceType, Pool
from shared.clock import Clock

REFRESH_S: Final = 10.0


class InventoryKeeper:
    """Asks the engine for its nodes, now and every ten seconds."""

    def __init__(
        self,
        *,
        engine: Engine,
        cluster: str,
        is_first: bool,
        catalog: CatalogWatch,
        store: CatalogStore,
        clock: Clock,
        registry: NodeRegistry,
    ) -> None:
        self._engine = engine
        self._cluster = cluster
        self._is_first = is_first
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
            self._registry.offer(self._cluster, nodes)
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
        pool, *types = default_documents(self._cluster, nodes, is_first=self._is_first)
        is_new = not view.revision(Pool, pool.name)
        if is_new and self._is_first:
            await self._make(pool)
        for document in types:
            is_made = not view.revision(InstanceType, document.name) and await self._make(document)
            if is_new and not is_made and not self._is_first:
                await self._extend(document.name, pool.name)
        if is_new and not self._is_first:  # at last, so that whoever is interrupted does all of it again
            await self._make(pool)
        await self._catalog.refresh()

    async def _extend(self, kind: str, pool: str) -> None:
        """A cluster's public pool is new: an instance type of the same name is to be had there, too."""
        while True:
            view = await self._catalog.refresh()
            known = view.get(InstanceType, kind)
            if known is None or pool in known.spec.pools:
                return
            spec = known.spec.model_copy(update={"pools": (*known.spec.pools, pool)})
            extended = known.model_copy(update={"spec": spec})
            with suppress(ConcurrentWriteError):
                await self._store.put(extended, expected=view.revision(InstanceType, kind))
                self._log.info("instance_type_extended", name=kind, pool=pool)

    async def _keep_cluster(self, inventory: Inventory) -> None:
        """Have the cluster's document say what the engine can do and how large its nodes are."""
        capacity = self._registry.capacity(self._cluster)
        wanted = _cluster_document(self._cluster, inventory, capacity, is_first=self._is_first)
        if wanted == self._told:
            return
        view = await self._catalog.refresh()
        if view.get(Cluster, self._cluster) != wanted:
            await self._store.put(wanted, expected=view.revision(Cluster, self._cluster))
        if self._is_first:
            await self._be_the_only_first(view)
        self._told = wanted

    async def _be_the_only_first(self, view: Catalog) -> None:
        """One that other settings made the first one is that no more: jobs that name no cluster go to one alone."""
        for other in view.all(Cluster):
            if other.spec.first and other.name != self._cluster:
                changed = other.model_copy(update={"spec": other.spec.model_copy(update={"first": False})})
                await self._store.put(changed, expected=view.revision(Cluster, other.name))

    async def _make(self, document: CatalogDocument) -> bool:
        """Whether it was made; another scheduler, or another cluster's keeper, may have been first."""
        try:
            await self._store.put(document, expected=0)
        except ConcurrentWriteError:
            self._log.debug("default_exists", kind=document.SINGULAR, name=document.name)
            return False
        self._log.info("default_made", kind=document.SINGULAR, name=document.name)
        return True


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
        slots=offer.slots,
        others_slots=offer.others_slots,
    )


def _cluster_document(name: str, inventory: Inventory, capacity: dict[str, Any], *, is_first: bool) -> Cluster:
    mounts = {"mounts": not inventory.no_mounts_because, "mountsHint": inventory.no_mounts_because}
    volumes = {"schemes": list(inventory.schemes), "filePrefixes": list(inventory.file_prefixes)}
    volcano = {"volcano": not inventory.no_volcano_because, "volcanoHint": inventory.no_volcano_because}
    spec = {**mounts, **volumes, **volcano, "engine": inventory.engine, **capacity, "first": is_first}
    document = {"apiVersion": "trainmaster/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
    return Cluster.model_validate(document)
