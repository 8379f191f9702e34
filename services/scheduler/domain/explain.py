"""Why a gang does not fit, in numbers: what is short, and how much of it there is.

Each role is judged alone first: does its pool have nodes, is one replica larger than any node, how many replicas fit
now and how many would fit with nothing running. A resource is named a blocker where it alone keeps the role from
fitting; where each resource would do but no node has them together, the number of replicas itself is the blocker. A
gang that would not even fit on empty nodes `never` fits as long as the nodes stay as they are; any other gang `waits`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from services.scheduler.domain.blocker import Blocker
from services.scheduler.domain.gang import Gang, RoleAsk
from services.scheduler.domain.nodes import NodeState, Request, Room, empty_room
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import fit
from shared.units import format_bytes


class Verdict(StrEnum):
    """Whether waiting helps."""

    FITS = "fits"
    WAITS = "waits"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to "why is my job waiting"."""

    verdict: Verdict
    summary: str
    blockers: tuple[Blocker, ...] = ()


@dataclass(frozen=True, slots=True)
class _Resource:
    """How to read one resource of a request and of a room, and how to print an amount of it."""

    name: str
    asked: Callable[[Request], int]
    free: Callable[[Room, Request], int]
    text: Callable[[int], str]


def _cores(amount_m: int) -> str:
    return f"{amount_m / 1000:g} cores" if amount_m != 1000 else "1 core"


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


_RESOURCES: Final = (
    _Resource("cpu", lambda request: request.cpu_m, lambda room, _: room.cpu_m, _cores),
    _Resource("memory", lambda request: request.memory_bytes, lambda room, _: room.memory_bytes, format_bytes),
    _Resource("gpu", lambda request: request.gpus, lambda room, request: len(room.fitting_devices(request)), _gpus),
)


def explain(gang: Gang, columns: Columns) -> Explanation:
    """Why the gang does not start on these nodes; says so where nothing but the queue is in its way."""
    if fit(gang, columns) is not None:
        return Explanation(Verdict.FITS, "fits now and starts as soon as its turn comes")
    blockers = tuple(blocker for role in gang.roles for blocker in _role_blockers(role, gang, columns))
    blockers = blockers or (_together(gang, columns),)
    never = fit(gang, Columns.empty(columns.layout)) is None
    verdict = Verdict.NEVER if never else Verdict.WAITS
    lead = "does not fit even with nothing else running" if never else "waits for capacity"
    summary = f"{lead}: {blockers[0].detail}{_left_out(gang, columns)}"
    return Explanation(verdict, summary, blockers)


def _left_out(gang: Gang, columns: Columns) -> str:
    """Which of these nodes the gang does not get, and why."""
    reasons = (
        (gang.failed_diagnosis, "failed this job's diagnosis"),
        (gang.suspected, "failed under this job's last attempt"),
    )
    return "".join(_left_out_because(nodes, why, columns) for nodes, why in reasons) + _not_ready(gang, columns)


def _not_ready(gang: Gang, columns: Columns) -> str:
    """How many nodes of its pools get no gangs at all, by state."""
    layout = columns.layout
    rows = {row for pool in gang.pools for row in layout.members(pool).nonzero()[0].tolist()}
    states = Counter(layout.nodes[row].state for row in rows)
    del states[NodeState.READY]
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return f"; of the {len(rows)} nodes there are {told}, which get no gangs" if told else ""


def _left_out_because(nodes: frozenset[str], why: str, columns: Columns) -> str:
    names = sorted(columns.layout.nodes[row].name for row in columns.layout.rows_named(nodes))
    return f"; {', '.join(names)} {why} and {'is' if len(names) == 1 else 'are'} left out" if names else ""


def _rooms(role: RoleAsk, gang: Gang, columns: Columns) -> list[Room]:
    """What is free on the nodes of the role's pool that may get new gangs and that this gang does not avoid."""
    rows = columns.layout.members(role.pool).nonzero()[0].tolist()
    avoided = set(columns.layout.rows_named(gang.avoided))
    rooms = (columns.room(row) for row in rows if row not in avoided)
    return [room for room in rooms if room.node.state is NodeState.READY]


def _role_blockers(role: RoleAsk, gang: Gang, columns: Columns) -> Iterator[Blocker]:
    if role.pool not in columns.layout.pools:
        yield Blocker(role.name, "nodes", 1, 0, 0, 0, f"there is no pool {role.pool!r} for role {role.name}")
        return
    here = _rooms(role, gang, columns)
    if not here:
        detail = f"pool {role.pool!r} has no node that role {role.name} may use"
        yield Blocker(role.name, "nodes", 1, 0, 0, 0, detail)
    elif sum(room.holds(role.request) for room in here) < role.replicas:
        short = [resource for resource in _RESOURCES if _is_short(resource, role, here)]
        yield from (_resource_blocker(resource, role, here) for resource in short)
        if not short:
            yield _replica_blocker(role, here)


def _is_short(resource: _Resource, role: RoleAsk, rooms: list[Room]) -> bool:
    asked = resource.asked(role.request)
    return asked > 0 and sum(max(resource.free(room, role.request), 0) // asked for room in rooms) < role.replicas


def _resource_blocker(resource: _Resource, role: RoleAsk, rooms: list[Room]) -> Blocker:
    asked = resource.asked(role.request)
    free = [max(resource.free(room, role.request), 0) for room in rooms]
    total = sum(resource.free(empty_room(room.node), role.request) for room in rooms)
    model = f" {role.request.gpu_model}" if resource.name == "gpu" and role.request.gpu_model else ""
    detail = (
        f"role {role.name} needs {role.replicas} x {resource.text(asked)}{model} in pool {role.pool!r}; "
        f"{resource.text(sum(free))} of {resource.text(total)} are free, at most {resource.text(max(free))} on one node"
    )
    return Blocker(role.name, resource.name, role.replicas * asked, sum(free), total, max(free), detail)


def _replica_blocker(role: RoleAsk, rooms: list[Room]) -> Blocker:
    counts = [room.holds(role.request) for room in rooms]
    total = sum(empty_room(room.node).holds(role.request) for room in rooms)
    detail = (
        f"role {role.name} needs {role.replicas} replicas in pool {role.pool!r}; there is enough of each resource, "
        f"but no node has it together: {sum(counts)} of {total} fit now, at most {max(counts)} on one node"
    )
    return Blocker(role.name, "replicas", role.replicas, sum(counts), total, max(counts), detail)


def _together(gang: Gang, columns: Columns) -> Blocker:
    """Each role would fit alone, but not all of them."""
    names = ", ".join(role.name for role in gang.roles)
    replicas = sum(role.replicas for role in gang.roles)
    fitting = min(sum(room.holds(role.request) for room in _rooms(role, gang, columns)) for role in gang.roles)
    detail = f"each of the roles {names} fits alone, but their {replicas} replicas do not fit together"
    if len(gang.roles) == 1:
        detail = (
            f"the {replicas} replicas fit in the pool, but not in one {gang.topology.level}, which the job asks for"
        )
    return Blocker(names, "replicas", replicas, fitting, fitting, fitting, detail)
