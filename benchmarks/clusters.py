"""Made-up clusters and gangs for measuring the planner: nodes of eight GPUs on leaves of 32, spines of 32 leaves."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from services.scheduler.domain.gang import Gang, Pool, RoleAsk
from services.scheduler.domain.nodes import Device, Node, Request
from services.scheduler.domain.planning.plan import Start
from services.scheduler.domain.planning.state import State
from services.scheduler.domain.tenure import running_of_gang
from shared.node_labels import LEAF_LABEL, SPINE_LABEL

GIB: Final = 1 << 30
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
POOL: Final = "public"
MODEL: Final = "H100"
NODES_A_LEAF: Final = 32
LEAVES_A_SPINE: Final = 32
GPUS: Final = 8
PROJECTS: Final = 20
USERS: Final = 60

ONE_GPU: Final = Request(8_000, 64 * GIB, 1, MODEL)
WHOLE_NODE: Final = Request(100_000, 800 * GIB, GPUS, MODEL)
SHAPES: Final = (
    ONE_GPU,
    Request(16_000, 128 * GIB, 2, MODEL),
    Request(32_000, 256 * GIB, 4, MODEL),
    WHOLE_NODE,
    Request(4_000, 16 * GIB),
    Request(1_000, 4 * GIB),
)
SMALL_SHAPES: Final = (*SHAPES[:3], *SHAPES[4:])


def nodes(count: int) -> list[Node]:
    """So many nodes, all alike."""
    return [_node(number) for number in range(count)]


def state(count: int) -> State:
    """So many idle nodes in one pool, with everything that is counted once counted."""
    made = State(nodes(count), {POOL: Pool(POOL, "main")})
    for shape in SHAPES:
        made.ledger.columns.count(POOL, shape)
    made.ledger.columns.layout.total(POOL)
    return made


def gang(number: int, replicas: int, request: Request, *, longest_s: float | None = None) -> Gang:
    """A gang of one role that waits since the start."""
    return Gang(
        job=f"tj-{number}",
        attempt=1,
        priority=5,
        sequence=number,
        roles=(RoleAsk("worker", replicas, POOL, request),),
        project=f"project-{number % PROJECTS}",
        owner=f"user-{number % USERS}",
        since=START,
        longest_s=longest_s,
    )


def gangs(count: int, sizes: Sequence[int], seed: int, shapes: Sequence[Request] = SMALL_SHAPES) -> list[Gang]:
    """So many gangs of sizes and shapes drawn at random."""
    chosen = random.Random(seed)
    return [gang(number, chosen.choice(sizes), chosen.choice(shapes)) for number in range(1, count + 1)]


def carry_out(starts: Sequence[Start], made: State, now: datetime) -> None:
    """Let gangs hold the places that they were given."""
    for start in starts:
        made.wait_no_more(start.gang.job)
        made.hold(running_of_gang(start.gang, now), start.seats)


def _node(number: int) -> Node:
    leaf = number // NODES_A_LEAF
    labels = {LEAF_LABEL: f"{leaf:04}", SPINE_LABEL: f"{leaf // LEAVES_A_SPINE:03}"}
    devices = tuple(Device(f"gpu-{index}", MODEL) for index in range(GPUS))
    return Node(f"n-{number:05}", f"node-{number:05}", "main", 128_000, 1024 * GIB, devices, labels)
