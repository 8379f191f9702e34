"""All nodes with the state that each is in: what the engine offers, beside the events of `NODES`.

Every scheduler keeps this picture, and gives it to the world whenever something in it changes. The one that leads also
puts on record what is new: what a node offers, and that its state is another one. State is not remembered anywhere
else: a scheduler that starts reads the last event of each kind of each node, and knows.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog

from services.scheduler.control.world import World
from services.scheduler.domain.capacity import capacity_document
from services.scheduler.domain.node_life import NodeLife, NodeRecord, change_of, folded, is_shown, lives, report_of
from services.scheduler.domain.nodes import Node, NodeState
from services.scheduler.metrics import SchedulerMetrics
from shared.bus import Bus, BusUnavailableError, CaughtUp
from shared.bus.streams import NODES
from shared.catalog import Cluster
from shared.clock import Clock
from shared.events import Event, Payload
from shared.ids import digest, node_of_subject
from shared.jobs import Recorded

_AT_ONCE: Final = 32
_RETRY_S: Final = 5.0
_DIGEST_CHARS: Final = 16


def node_subject(cluster: str, node: str, suffix: str) -> str:
    """Subject of an event about a node of a cluster, which is given by its name."""
    return f"tm.node.{Cluster.id_of(cluster)}.{node}.{suffix}"


class NodeRegistry:
    """The nodes of all clusters; an id is that of one node in one of them."""

    def __init__(
        self,
        *,
        bus: Bus,
        clusters: Sequence[str],
        world: World,
        clock: Clock,
        metrics: SchedulerMetrics,
        cap_percent: int,
        on_change: Callable[[], None],
    ) -> None:
        self._bus = bus
        self._clusters = tuple(clusters)
        self._world = world
        self._clock = clock
        self._metrics = metrics
        self._cap_percent = cap_percent
        self._on_change = on_change
        self._offered: dict[str, Node] = {}
        self._twice: frozenset[str] = frozenset()
        self._records: dict[str, NodeRecord] = {}
        self._lives: dict[str, NodeLife] = {}
        self._sequence = 0
        self._moved = asyncio.Condition()
        self._news = asyncio.Event()
        self._log = structlog.get_logger(service="scheduler")
        self.caught_up = asyncio.Event()

    @property
    def lives(self) -> Mapping[str, NodeLife]:
        """Nodes by id."""
        return self._lives

    def record(self, node: str) -> NodeRecord | None:
        """What the events say of a node, by id."""
        return self._records.get(node)

    def capacity(self, cluster: str) -> dict[str, Any]:
        """How large nodes and domains are, those included that are not ready now, as the cluster's document has it."""
        nodes = (life.node for life in self._lives.values() if life.node.cluster == cluster)
        return capacity_document(nodes, self._world.pools)

    def offer(self, cluster: str, nodes: Iterable[Node]) -> None:
        """The cluster's engine has these nodes now; one that another cluster has already is left out."""
        others = {node.id: node for node in self._offered.values() if node.cluster != cluster}
        found = {node.id: node for node in nodes}
        twice = frozenset(others.keys() & found.keys())
        if twice - self._twice:
            self._log.error("node_in_two_clusters", cluster=cluster, nodes=sorted(twice))
        self._twice = twice
        self._offered = {**found, **others}
        self._settle()

    def pools_changed(self) -> None:
        """What a pool may miss has changed."""
        self._settle()

    async def run(self) -> None:
        """Follow the events of the clusters' nodes for ever."""
        subjects = tuple(node_subject(cluster, "*", "*") for cluster in self._clusters)
        async for batch in self._bus.follow_batches(after=0, stream=NODES, subjects=subjects, last_only=True):
            for item in batch:
                if isinstance(item, Recorded):
                    self._take(item)
                elif isinstance(item, CaughtUp):
                    self.caught_up.set()
            self._settle()
            async with self._moved:
                self._moved.notify_all()

    async def reached(self, sequence: int) -> None:
        """Return once the event with this sequence is taken."""
        async with self._moved:
            await self._moved.wait_for(lambda: self._sequence >= sequence)

    async def put(self, payload: Payload, node: str) -> int:
        """Put an event about a node on record; gives its sequence. Raises BusUnavailableError."""
        now = self._clock.now()
        part = digest(now.isoformat(), payload.model_dump_json())[:_DIGEST_CHARS]
        event = Event.of(payload, job=node, attempt=0, time=now, owner="", project="", part=part)
        return await self._bus.observe(event, subject=node_subject(self._cluster_of(node), node, payload.SUFFIX))

    def _cluster_of(self, node: str) -> str:
        """The cluster that a node is in, or was in when it was last reported."""
        life, record = self._lives.get(node), self._records.get(node)
        if life is not None:
            return life.node.cluster
        return record.reported.cluster if record is not None and record.reported is not None else self._clusters[0]

    async def tell(self) -> None:
        """Put on record whatever is new, for ever; for the scheduler that leads."""
        await self.caught_up.wait()
        while True:
            self._news.clear()
            try:
                await self._tell_all()
                await self._news.wait()
            except BusUnavailableError as error:
                self._log.warning("nodes_not_told", reason=error.message)
                await self._clock.sleep(_RETRY_S)

    async def _tell_all(self) -> None:
        news = [(node, payload) for node in list(self._lives) for payload in self._news_of(node)]
        for first in range(0, len(news), _AT_ONCE):
            sequences = await asyncio.gather(*(self.put(payload, node) for node, payload in news[first:][:_AT_ONCE]))
            await self.reached(max(sequences))

    def _news_of(self, node: str) -> list[Payload]:
        record, life = self._records.get(node), self._lives[node]
        report = report_of(self._offered[node]) if node in self._offered else None
        is_known = record is not None and record.reported == report
        change = change_of(life, record)
        if change is not None:
            said = "node_quarantine_withheld" if change.withheld else "node_changed"
            self._log.warning(said, node=life.node.name, state=life.state, by=life.by, reason=life.reason)
        return [payload for payload in (None if is_known else report, change) if payload is not None]

    def _take(self, recorded: Recorded) -> None:
        self._sequence = recorded.sequence
        node = node_of_subject(recorded.subject)
        self._records[node] = folded(self._records.get(node, NodeRecord(node)), recorded)

    def _settle(self) -> None:
        """Make the states anew, and tell the world where any of them is another one."""
        found = lives(self._offered.values(), self._records, self._world.pools, cap_percent=self._cap_percent)
        held = self._world.ledger.busy_nodes
        now = self._clock.now()
        shown = {name: life for name, life in found.items() if is_shown(life, self._records.get(name), held, now)}
        self._news.set()
        if shown == self._lives:
            return
        before, self._lives = self._lives, shown
        self._count()
        if [life.node for life in before.values()] != [life.node for life in shown.values()]:
            self._world.set_nodes(life.node for life in shown.values())
            self._on_change()

    def _count(self) -> None:
        states = Counter(life.state for life in self._lives.values())
        for state in NodeState:
            self._metrics.nodes.labels(state.value).set(states[state])
        self._metrics.withheld.set(sum(life.withheld for life in self._lives.values()))
