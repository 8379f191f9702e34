"""Placements in their two forms: seats, as the ledger counts them, and events, as they go on record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from services.scheduler.domain.ledger import Seat
from services.scheduler.domain.planning.preempt import Eviction
from services.scheduler.domain.terms import Terms
from shared.events import Placed, PreemptionRequested, Resolved, RolePlacement
from shared.jobs import Attempt, Job

NAMED_NODES_MAX: Final = 1000  # with more names the event would be too large


def placed_event(
    resolved: Resolved, seats: Iterable[Seat], names: Mapping[str, str], *, diagnosing: bool = False
) -> Placed:
    """The event that puts these seats on record, for a diagnosis or for the start; the roles keep their order.

    `names` are those of the nodes, by their ids.
    """
    return Placed(cluster=resolved.cluster, roles=role_placements(resolved, seats, names), diagnosing=diagnosing)


def role_placements(resolved: Resolved, seats: Iterable[Seat], names: Mapping[str, str]) -> tuple[RolePlacement, ...]:
    """The seats of each role, in the order of the roles."""
    of_role: dict[str, list[Seat]] = {role.name: [] for role in resolved.roles}
    for seat in seats:
        of_role[seat.role].append(seat)
    return tuple(_role_placement(role.name, role.pool, of_role[role.name], names) for role in resolved.roles)


def preemption_of(eviction: Eviction) -> PreemptionRequested:
    """The event that has a gang make room for another."""
    by = eviction.by
    return PreemptionRequested(
        by=by.job, priority=by.priority, message=f"makes room for a job of priority {by.priority}"
    )


def _role_placement(role: str, pool: str, seats: list[Seat], names: Mapping[str, str]) -> RolePlacement:
    seats = sorted(seats, key=lambda seat: seat.index)
    nodes = tuple(dict.fromkeys(seat.node for seat in seats))
    number = {node: place for place, node in enumerate(nodes)}
    devices = tuple(seat.devices for seat in seats) if any(seat.devices for seat in seats) else ()
    return RolePlacement(
        role=role,
        pool=pool,
        nodes=nodes,
        node_of=tuple(number[seat.node] for seat in seats),
        node_names=tuple(names.get(node, node) for node in nodes) if len(names) <= NAMED_NODES_MAX else (),
        devices=devices,
    )


def seats_of(attempt: Attempt, terms: Terms) -> tuple[Seat, ...]:
    """The seats that the attempt's record says it holds; none before it is placed."""
    if attempt.placement is None:
        return ()
    requests = {role.name: role.request for role in terms.roles}
    return tuple(
        Seat(role.role, index, role.node(index), requests[role.role], role.devices_of(index))
        for role in attempt.placement.roles
        for index in range(len(role.node_of))
    )


def nodes_of(attempt: Attempt) -> tuple[str, ...]:
    """The nodes that the attempt is placed on, each once."""
    roles = attempt.placement.roles if attempt.placement else ()
    return tuple(dict.fromkeys(node for role in roles for node in role.nodes))


def holds_capacity(job: Job) -> bool:
    """Whether the job's present attempt has seats: from its placement to the confirmed end of its replicas."""
    return job.attempt.placement is not None and job.attempt.ended is None
