"""A gang that asks for a place, and the pools in which it may be placed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from services.scheduler.domain.nodes import Node, Request


class QueuePolicy(StrEnum):
    """What happens behind a gang that does not fit: others pass it, or it blocks the pool."""

    BACKFILL = "backfill"
    FIFO = "fifo"


class Level(StrEnum):
    """A level of the network's tree."""

    LEAF = "leaf"
    SPINE = "spine"


@dataclass(frozen=True, slots=True)
class Topology:
    """How close to each other the replicas are placed: in one domain of the level where that can be, or nowhere."""

    level: Level = Level.LEAF
    hard: bool = False


@dataclass(frozen=True, slots=True)
class Preemption:
    """What a pool allows: gangs that have run for this long may be stopped for others of higher priority."""

    protected_s: float


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as placement sees it: a node belongs to it by name, or by having all of the pool's labels.

    A pool that selects nothing has every node of its cluster that none of the dedicated pools selects: what an admin
    dedicates to a team is nobody else's.
    """

    name: str
    cluster: str
    policy: QueuePolicy = QueuePolicy.BACKFILL
    node_names: frozenset[str] = frozenset()
    node_labels: Mapping[str, str] = field(default_factory=dict)
    dedicated: tuple[Pool, ...] = ()
    preemption: Preemption | None = None

    @property
    def selects(self) -> bool:
        """Whether it names nodes or labels."""
        return bool(self.node_names or self.node_labels)

    def has(self, node: Node) -> bool:
        """Whether the node belongs to this pool."""
        if node.cluster != self.cluster:
            return False
        if not self.selects:
            return not any(pool.has(node) for pool in self.dedicated)
        labelled = bool(self.node_labels) and self.node_labels.items() <= node.labels.items()
        return labelled or node.is_named(self.node_names)


@dataclass(frozen=True, slots=True)
class RoleAsk:
    """One role of a gang: so many replicas with this request, in this pool."""

    name: str
    replicas: int
    pool: str
    request: Request


@dataclass(frozen=True, slots=True)
class Gang:
    """One attempt that waits for a place; `sequence` is the stream sequence of the job's submission.

    `excluded` are the nodes that its user does not want, `failed_diagnosis` those that were found bad for this job,
    `suspected` those on which its last attempt failed in a way that speaks against them.
    It waits since `since`, and holds its place for at most `longest_s`, where that is known.
    """

    job: str
    attempt: int
    priority: int
    sequence: int
    roles: tuple[RoleAsk, ...]
    excluded: frozenset[str] = frozenset()
    project: str = ""
    failed_diagnosis: frozenset[str] = frozenset()
    suspected: frozenset[str] = frozenset()
    owner: str = ""
    since: datetime | None = None
    topology: Topology = field(default_factory=Topology)
    longest_s: float | None = None

    @property
    def avoided(self) -> frozenset[str]:
        """All nodes that it must not get."""
        return self.excluded | self.failed_diagnosis | self.suspected

    @property
    def shape(self) -> tuple[object, ...]:
        """Gangs of equal shape fit in the same places, and for as long."""
        return self.roles, self.avoided, self.topology, self.longest_s

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools that it wants places in, each once, by name."""
        return tuple(sorted({role.pool for role in self.roles}))


def in_queue_order(gangs: Iterable[Gang]) -> tuple[Gang, ...]:
    """Higher priority first, then the earlier submission."""
    return tuple(sorted(gangs, key=lambda gang: (-gang.priority, gang.sequence)))
