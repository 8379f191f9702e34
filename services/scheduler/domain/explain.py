"""Why a gang does not fit, in numbers: what is short, and how much of it there is.

Each role is judged alone first: does its pool have nodes, is one replica larger than any node, how many replicas fit
now and how many would fit with nothing running. A resource is named a blocker where it alone keeps the role from
fitting; where each resource would do but no node has them together, the number of replicas itself is the blocker. Where
nothing is short for any role alone, `explaining.together` judges all of them. A gang that would not even fit on empty
nodes `never` fits as long as the nodes stay as they are; any other gang `waits`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from services.scheduler.domain.blocker import Blocker
from services.scheduler.domain.explaining.amounts import RESOURCES, Resource, free_of, held_of, usable_rows
from services.scheduler.domain.explaining.together import together_blocker
from services.scheduler.domain.gang import Gang, RoleAsk
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import fit
from services.scheduler.domain.planning.layout import Ints


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


def explain(gang: Gang, columns: Columns) -> Explanation:
    """Why the gang does not start on these nodes; says so where nothing but the queue is in its way."""
    if fit(gang, columns) is not None:
        return Explanation(Verdict.FITS, "fits now and starts as soon as its turn comes")
    empty = Columns.empty(columns.layout)
    never = fit(gang, empty) is None
    blockers = _blockers(gang, columns)
    if not blockers or (never and not _blockers(gang, empty)):
        # What others hold now is not what keeps a gang away for ever that nodes without them would not take, either.
        blockers = (together_blocker(gang, columns, never=never),)
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
    """How many nodes of its pools get no gangs at all, by state, and how many get them last."""
    layout = columns.layout
    members = np.logical_or.reduce([layout.members(pool) for pool in gang.pools])
    states = Counter(layout.nodes[row].state for row in np.flatnonzero(members & ~layout.ready).tolist())
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    out = f"; of the {int(members.sum())} nodes there are {told}, which get no gangs" if told else ""
    suspects = sum(bool(members[row] and layout.ready[row]) for row in layout.suspects)
    return out + (f"; {suspects} of the nodes that do are suspect, and are used last" if suspects else "")


def _left_out_because(nodes: frozenset[str], why: str, columns: Columns) -> str:
    names = sorted(columns.layout.nodes[row].name for row in columns.layout.rows_named(nodes))
    return f"; {', '.join(names)} {why} and {'is' if len(names) == 1 else 'are'} left out" if names else ""


def _blockers(gang: Gang, columns: Columns) -> tuple[Blocker, ...]:
    return tuple(blocker for role in gang.roles for blocker in _role_blockers(role, gang, columns))


def _role_blockers(role: RoleAsk, gang: Gang, columns: Columns) -> Iterator[Blocker]:
    if role.pool not in columns.layout.pools:
        yield Blocker(role.name, "nodes", 1, 0, 0, 0, f"there is no pool {role.pool!r} for role {role.name}")
        return
    rows = usable_rows(role, gang, columns)
    if not rows.size:
        detail = f"pool {role.pool!r} has no node that role {role.name} may use"
        yield Blocker(role.name, "nodes", 1, 0, 0, 0, detail)
    elif held_of(role, columns, rows).sum() < role.replicas:
        short = [resource for resource in RESOURCES if _is_short(resource, role, columns, rows)]
        yield from (_resource_blocker(resource, role, columns, rows) for resource in short)
        if not short:
            yield _replica_blocker(role, columns, rows)


def _is_short(resource: Resource, role: RoleAsk, columns: Columns, rows: Ints) -> bool:
    asked = resource.asked(role.request)
    return asked > 0 and int((free_of(resource, role.request, columns, rows) // asked).sum()) < role.replicas


def _resource_blocker(resource: Resource, role: RoleAsk, columns: Columns, rows: Ints) -> Blocker:
    asked = resource.asked(role.request)
    amounts = free_of(resource, role.request, columns, rows)
    free, most = int(amounts.sum()), int(amounts.max())
    total = int(free_of(resource, role.request, Columns.empty(columns.layout), rows).sum())
    model = f" {role.request.gpu_model}" if resource.name == "gpu" and role.request.gpu_model else ""
    detail = (
        f"role {role.name} needs {role.replicas} x {resource.text(asked)}{model} in pool {role.pool!r}; "
        f"{resource.text(free)} of {resource.text(total)} are free, at most {resource.text(most)} on one node"
    )
    return Blocker(role.name, resource.name, role.replicas * asked, free, total, most, detail)


def _replica_blocker(role: RoleAsk, columns: Columns, rows: Ints) -> Blocker:
    counts = held_of(role, columns, rows)
    fitting, most = int(counts.sum()), int(counts.max())
    total = int(held_of(role, Columns.empty(columns.layout), rows).sum())
    detail = (
        f"role {role.name} needs {role.replicas} replicas in pool {role.pool!r}; there is enough of each resource, "
        f"but no node has it together: {fitting} of {total} fit now, at most {most} on one node"
    )
    return Blocker(role.name, "replicas", role.replicas, fitting, total, most, detail)
