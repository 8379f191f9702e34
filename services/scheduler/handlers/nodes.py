"""Nodes as their users see them, and what admins order about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from services.scheduler.control.node_registry import NodeRegistry, node_subject
from services.scheduler.control.world import World
from services.scheduler.domain.node_life import NodeLife
from services.scheduler.domain.nodes import Node, NodeState, Room
from services.scheduler.domain.offers import usable_pools
from services.scheduler.domain.views import pools_of
from services.scheduler.handlers.finding import may_see
from shared.auth.principal import Principal
from shared.bus import Bus
from shared.bus.history import recorded_of
from shared.bus.streams import NODES
from shared.catalog import CatalogWatch, asker_of
from shared.documents.fields import shown
from shared.errors import ConflictError, ForbiddenError, NotFoundError
from shared.events import NodeMarked, NodeRecalled, Payload
from shared.jobs import Job, Recorded
from shared.readmodel import JobReadModel


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node with what is free on it, and those of its pools that the asker may use."""

    life: NodeLife
    room: Room
    pools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Holding:
    """A job with replicas on a node."""

    job: Job
    replicas: int


@dataclass(frozen=True, slots=True)
class Holders:
    """Who has replicas on a node: jobs that the asker may see, and how many replicas others have."""

    jobs: tuple[Holding, ...]
    other_replicas: int


@dataclass(frozen=True, slots=True)
class NodeHandlers:
    """The use cases about nodes."""

    world: World
    registry: NodeRegistry
    catalog: CatalogWatch
    jobs: JobReadModel
    bus: Bus

    def nodes(self, principal: Principal) -> list[SeenNode]:
        """Nodes of the pools that the principal may use, by name; all of them for an admin."""
        seen = (node for node in self._all(principal) if node.pools or principal.admin)
        return sorted(seen, key=lambda node: (node.room.node.name, node.room.node.id))

    def node(self, principal: Principal, name: str) -> SeenNode:
        """One node, by name or id; raises NotFoundError, or ConflictError where clusters have several of that name."""
        names = frozenset({name})
        found = [seen for seen in self.nodes(principal) if seen.room.node.is_named(names)]
        if not found:
            raise NotFoundError("node", name)
        if len(found) > 1:
            several = ", ".join(f"{seen.room.node.id} in cluster {seen.room.node.cluster}" for seen in found)
            raise ConflictError(f"several nodes are called {shown(name)}; give the id of one: {several}")
        return found[0]

    def holders(self, principal: Principal, node: str) -> Holders:
        """Who has replicas on the node, given by its id."""
        ledger, view = self.world.ledger, self.catalog.view
        replicas = Counter(
            {
                gang.rpartition("-")[0]: sum(seat.node == node for seat in ledger.held[gang])
                for gang in ledger.held_on(node)
            }
        )
        jobs = ((self.jobs.get(job), count) for job, count in sorted(replicas.items()))
        told = tuple(Holding(job, count) for job, count in jobs if job is not None and may_see(principal, job, view))
        return Holders(told, replicas.total() - sum(holding.replicas for holding in told))

    async def order(self, principal: Principal, name: str, state: NodeState, reason: str) -> SeenNode:
        """Have the node drained or quarantined; raises ForbiddenError, NotFoundError or ConflictError."""
        _must_be_admin(principal)
        life = self.node(principal, name).life
        record = self.registry.record(life.node.id)
        wish = record.wish if record else None
        if state is NodeState.DRAINING and wish is not None and wish.state is NodeState.QUARANTINED:
            raise ConflictError(f"node {shown(life.node.name)} is to be quarantined ({wish.by}); restore it first")
        if wish is None or wish.capped or (wish.state, wish.reason) != (state, reason):
            node = life.node
            mark = NodeMarked(cluster=node.cluster, node=node.id, wish=state.value, by=principal.name, reason=reason)
            await self._put(mark, node)
        return self.node(principal, life.node.id)

    async def restore(self, principal: Principal, name: str, reason: str, *, force: bool) -> SeenNode:
        """Have the node used again: at once, or when it passes a test; raises ForbiddenError or NotFoundError."""
        _must_be_admin(principal)
        node = self.node(principal, name).life.node
        record = self.registry.record(node.id)
        if record is not None and record.is_bad and not force:
            wanted = NodeRecalled(cluster=node.cluster, node=node.id, by=principal.name, reason=reason)
            await self._put(wanted, node)
        elif record is not None and (record.wish or record.suspicion):
            mark = NodeMarked(cluster=node.cluster, node=node.id, wish="Ready", by=principal.name, reason=reason)
            await self._put(mark.model_copy(update={"forced": record.is_bad}), node)
        return self.node(principal, node.id)

    async def _put(self, payload: Payload, node: Node) -> None:
        await self.registry.reached(await self.registry.put(payload, node.id))

    async def history(self, principal: Principal, name: str) -> list[Recorded]:
        """What happened to the node, for admins; raises ForbiddenError or NotFoundError."""
        _must_be_admin(principal)
        node = self.node(principal, name).life.node
        messages = await self.bus.history.messages(NODES, node_subject(node.cluster, node.id, "*"))
        return [recorded_of(message) for message in messages]

    def _all(self, principal: Principal) -> Iterator[SeenNode]:
        view, rooms = self.catalog.view, self.world.ledger.rooms
        usable = usable_pools(view, asker_of(principal, view))
        pools = {name: pool for name, pool in self.world.pools.items() if name in usable}
        for node_id, life in self.registry.lives.items():
            if node_id in rooms:
                yield SeenNode(life, rooms[node_id], tuple(pools_of(rooms[node_id], pools)))


def _must_be_admin(principal: Principal) -> None:
    if not principal.admin:
        raise ForbiddenError("only admins drain, quarantine and restore nodes, and see who did")
