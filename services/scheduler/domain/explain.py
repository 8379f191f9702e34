"""Why a gang waits, in numbers: what is short, how much of it there is, and the smallest changes that would start it.

Each role is judged alone first: does its pool have nodes, is one replica larger than any node, how many replicas fit
now and how many would fit with nothing running. A resource is named a blocker where it alone keeps the role from
fitting; where each resource would do but no node has them together, the number of replicas itself is the blocker. A
gang that would not even fit on empty nodes `never` fits as long as the nodes stay as they are; any other gang `waits`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from services.scheduler.domain.blocker import Blocker
from services.scheduler.domain.gang import Gang, RoleAsk, Topology
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
    suggestions: tuple[str, ...] = ()


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


def explain(gang: Gang, columns: Columns, alternatives: Mapping[str, Collection[str]] | None = None) -> Explanation:
    """Why the gang does not start on these nodes; says so where nothing but the queue is in its way.

    `alternatives` are the other pools, by role, that the asker may use and that offer the role's instance type.
    """
    if fit(gang, columns) is not None:
        return Explanation(Verdict.FITS, "fits now and starts as soon as its turn comes")
    blockers = tuple(blocker for role in gang.roles for blocker in _role_blockers(role, gang, columns))
    blockers = blockers or (_together(gang, columns),)
    never = fit(gang, Columns.empty(columns.layout)) is None
    verdict = Verdict.NEVER if never else Verdict.WAITS
    lead = "does not fit even with nothing else running" if never else "waits for capacity"
    suggestions = tuple(_suggestions(gang, columns, alternatives or {}))
    summary = f"{lead}: {blockers[0].detail}{_left_out(gang, columns)}"
    return Explanation(verdict, summary, blockers, suggestions)


def _left_out(gang: Gang, columns: Columns) -> str:
    """Which of these nodes the gang does not get, and why."""
    reasons = (
        (gang.failed_diagnosis, "failed this job's diagnosis"),
        (gang.suspected, "failed under this job's last attempt"),
    )
    return "".join(_left_out_because(nodes, why, columns) for nodes, why in reasons)


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


def _suggestions(gang: Gang, columns: Columns, alternatives: Mapping[str, Collection[str]]) -> Iterator[str]:
    """The changes that help now; where there are none, those that help once other jobs have ended."""
    now = tuple(_changes(gang, columns, alternatives))
    yield from (f"{change} would start it now" for change in now)
    if not now:
        empty = Columns.empty(columns.layout)
        later = () if fit(gang, empty) is not None else _changes(gang, empty, alternatives)
        yield from (f"{change} would make it fit once other jobs have ended" for change in later)


def _changes(gang: Gang, columns: Columns, alternatives: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Single changes each of which makes the gang fit."""
    for role in gang.roles:
        most = _most_replicas(gang, role, columns)
        if most:
            yield f"{most} instead of {role.replicas} replicas of role {role.name}"
        for pool in sorted(set(alternatives.get(role.name, ())) - {role.pool}):
            if fit(_with_role(gang, replace(role, pool=pool)), columns) is not None:
                yield f"pool {pool!r} instead of {role.pool!r} for role {role.name}"
    if gang.excluded and fit(replace(gang, excluded=frozenset()), columns) is not None:
        yield "an empty excludeNodes"
    if gang.topology.hard and fit(replace(gang, topology=Topology()), columns) is not None:
        yield "topology.mode soft instead of hard"


def _most_replicas(gang: Gang, role: RoleAsk, columns: Columns) -> int:
    """The largest smaller number of replicas of this role with which the gang fits; 0 where there is none."""
    low, high = 0, role.replicas - 1
    while low < high:
        middle = (low + high + 1) // 2
        fits = fit(_with_role(gang, replace(role, replicas=middle)), columns) is not None
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _with_role(gang: Gang, role: RoleAsk) -> Gang:
    return replace(gang, roles=tuple(role if other.name == role.name else other for other in gang.roles))
