"""Small clusters and gangs for tests of placement."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from services.scheduler.domain.gang import Gang, Pool, QueuePolicy, RoleAsk
from services.scheduler.domain.ledger import Ledger, Seat
from services.scheduler.domain.nodes import SLOTS_MAX, Device, Node, NodeState, Request
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import fit, take
from services.scheduler.domain.planning.plan import Plan, Snapshot, Start, plan
from services.scheduler.domain.planning.waiting import Queue

GIB = 1 << 30
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PUBLIC = Pool("public", "main")


def node(name: str, cores: int = 8, memory_gib: int = 32, gpus: int = 0, model: str = "A100", **more) -> Node:
    devices = tuple(Device(f"{name}-gpu{number}", model) for number in range(gpus))
    fields = {"id": f"n-{name}", "name": name, "cluster": "main", **more}
    return Node(cpu_m=cores * 1000, memory_bytes=memory_gib * GIB, devices=devices, **fields)


def request(cores: int = 1, memory_gib: int = 1, gpus: int = 0, model: str = "") -> Request:
    return Request(cores * 1000, memory_gib * GIB, gpus, model)


def ask(replicas: int = 1, name: str = "worker", pool: str = "public", **wanted) -> RoleAsk:
    return RoleAsk(name, replicas, pool, request(**wanted))


def gang(*roles: RoleAsk, job: str = "tj-a", priority: int = 5, sequence: int = 1, excluded: tuple[str, ...] = ()):
    return Gang(job, 1, priority, sequence, roles or (ask(),), frozenset(excluded))


def columns(nodes=(), pools: tuple[Pool, ...] | dict[str, Pool] = (PUBLIC,)) -> Columns:
    """Empty nodes."""
    by_name = pools if isinstance(pools, dict) else {pool.name: pool for pool in pools}
    return Ledger(nodes, by_name).columns


def fitted(wanted: Gang, free: Columns) -> tuple[Seat, ...] | None:
    """Seats for the gang, or None."""
    places = fit(wanted, free)
    return None if places is None else Start(wanted, places, free.layout).seats


def place(wanted: Gang, *nodes: Node, pools: tuple[Pool, ...] = (PUBLIC,)) -> tuple[Seat, ...] | None:
    return fitted(wanted, columns(nodes, pools))


def after(start: Start, free: Columns) -> Columns:
    """What is free once a gang has started."""
    left = free.copy()
    take(start.places, left)
    return left


def planned(gangs, free: Columns, *, now: datetime = NOW, **more) -> Plan:
    return plan(Snapshot(free, Queue(gangs), **more), now)


def nodes_of(seats: tuple[Seat, ...] | None) -> list[str]:
    assert seats is not None
    return [seat.node for seat in seats]


names = st.sampled_from(["a", "b", "c", "d", "e", "f"])
nodes = st.builds(
    node,
    name=names,
    cores=st.integers(1, 8),
    memory_gib=st.integers(1, 16),
    gpus=st.integers(0, 4),
    model=st.sampled_from(["A100", "H100"]),
    labels=st.sampled_from([{}, {"team": "x"}]),
    state=st.sampled_from([NodeState.READY, NodeState.READY, NodeState.READY, *NodeState]),
    slots=st.sampled_from([SLOTS_MAX, SLOTS_MAX, 0, 1, 3]),
)
clusters = st.lists(nodes, max_size=6, unique_by=lambda made: made.id).map(tuple)
requests = st.builds(
    request,
    cores=st.integers(1, 5),
    memory_gib=st.integers(1, 8),
    gpus=st.integers(0, 3),
    model=st.sampled_from(["", "A100"]),
)
asks = st.builds(
    RoleAsk,
    name=st.sampled_from(["master", "ps", "worker"]),
    replicas=st.integers(1, 6),
    pool=st.sampled_from(["public", "team"]),
    request=requests,
)
roles = st.lists(asks, min_size=1, max_size=3, unique_by=lambda role: role.name).map(tuple)
POOLS = {
    "public": PUBLIC,
    "team": Pool("team", "main", QueuePolicy.FIFO, node_labels={"team": "x"}),
}
