"""Keeping the nodes of the world as the engine reports them, and telling others: events, catalog, defaults."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import structlog

from services.scheduler.control.world import World
from services.scheduler.domain.defaults import default_documents
from services.scheduler.domain.nodes import Node
from services.scheduler.ports import Engine, Inventory, NodeOffer
from shared.bus import Bus, BusUnavailableError, ConcurrentWriteError
from shared.catalog import Catalog, CatalogDocument, CatalogStore, CatalogWatch, Cluster
from shared.clock import Clock
from shared.events import Event, NodeReported
from shared.ids import digest

REFRESH_S: Final = 60.0
_DIGEST_CHARS: Final = 16


class InventoryKeeper:
    """Asks the engine for its nodes, now and every minute."""

    def __init__(
        self,
        *,
        bus: Bus,
        engine: Engine,
        cluster: str,
        world: World,
        catalog: CatalogWatch,
        store: CatalogStore,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self._bus = bus
        self._engine = engine
        self._cluster = cluster
        self._world = world
        self._catalog = catalog
        self._store = store
        self._clock = clock
        self._on_change = on_change
        self._known: Inventory | None = None
        self._log = structlog.get_logger(service="scheduler", cluster=cluster)

    async def run(self) -> None:
        """Refresh for ever."""
        while True:
            await self._clock.sleep(REFRESH_S)
            try:
                await self.refresh()
            except Exception:  # noqa: BLE001  # the next minute brings another try
                self._log.exception("inventory_failed")

    async def refresh(self) -> None:
        """Take over what the engine has now; whatever cannot be told while NATS is away is told the next time."""
        inventory = await self._engine.inventory()
        if inventory == self._known:
            return
        nodes = [_node(offer, self._cluster) for offer in inventory.nodes]
        self._world.set_nodes(nodes)
        self._on_change()
        try:
            await self._tell(inventory, nodes)
        except (BusUnavailableError, ConcurrentWriteError) as error:
            self._log.warning("inventory_not_told", reason=error.message)
        else:
            self._known = inventory

    async def _tell(self, inventory: Inventory, nodes: list[Node]) -> None:
        view = await self._catalog.refresh()
        await self._keep_cluster(view, inventory)
        for document in default_documents(self._cluster, nodes):
            if not view.revision(type(document), document.name):
                await self._make(document)
        for node in nodes:
            await self._report(node)
        await self._catalog.refresh()

    async def _keep_cluster(self, view: Catalog, inventory: Inventory) -> None:
        wanted = _cluster_document(self._cluster, inventory)
        if view.get(Cluster, self._cluster) != wanted:
            await self._store.put(wanted, expected=view.revision(Cluster, self._cluster))

    async def _make(self, document: CatalogDocument) -> None:
        try:
            await self._store.put(document, expected=0)
            self._log.info("default_made", kind=document.SINGULAR, name=document.name)
        except ConcurrentWriteError:
            self._log.debug("default_exists", kind=document.SINGULAR, name=document.name)

    async def _report(self, node: Node) -> None:
        cluster = Cluster.id_of(node.cluster)
        fact = NodeReported(
            cluster=node.cluster,
            node=node.id,
            cpu_millis=node.cpu_m,
            memory_bytes=node.memory_bytes,
            gpu_model=node.devices[0].model if node.devices else None,
            devices=tuple(device.id for device in node.devices),
            labels=dict(node.labels),
        )
        part = digest(json.dumps(fact.model_dump(mode="json"), sort_keys=True))[:_DIGEST_CHARS]
        event = Event.of(fact, job=node.id, attempt=0, time=self._clock.now(), owner="", project="", part=part)
        await self._bus.observe(event, subject=f"tm.node.{cluster}.{node.id}.{fact.SUFFIX}")


def _node(offer: NodeOffer, cluster: str) -> Node:
    return Node(
        id=offer.id,
        name=offer.name,
        cluster=cluster,
        cpu_m=offer.cpu_m,
        memory_bytes=offer.memory_bytes,
        devices=offer.devices,
        labels=dict(offer.facts),
    )


def _cluster_document(name: str, inventory: Inventory) -> Cluster:
    spec = {"mounts": not inventory.no_mounts_because, "mountsHint": inventory.no_mounts_because}
    document = {"apiVersion": "trainmaster/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
    return Cluster.model_validate(document)
