"""What would become of a job that is not submitted: where it would start now, at what price, or what it would wait for.

The same planner decides, with the job at the end of the queue as it is at this moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.gang import Gang
from services.scheduler.domain.planning.plan import Start
from services.scheduler.domain.standing import Asker, Standing, explained, waiting, warned
from shared.events import Event, Resolved, ResolvedRole, Submitted, subject_of
from shared.jobs import Job, Recorded, fold

_LAST: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class RoleTrial:
    """Where the replicas of a role would go: how many on which node, and how many GPUs each of them would have."""

    role: str
    pool: str
    nodes: tuple[tuple[str, int], ...]
    gpus: int = 0
    instance_type: str = ""


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """The answer; `price_micros_per_hour` is None where no role is on a public pool.

    `differences` say what another kind of place would make of the job.
    """

    standing: Standing
    cluster: str
    price_micros_per_hour: int | None
    placement: tuple[RoleTrial, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def starts(self) -> bool:
        """Whether it would start now."""
        return bool(self.placement)


def submitted_job(submitted: Submitted, job: str, owner: str, project: str, now: datetime) -> Job:
    """The job as it would be a moment after its submission, the last one in the queue."""
    event = Event.of(submitted, job=job, attempt=1, time=now, owner=owner, project=project)
    made = fold(None, Recorded(_LAST, subject_of(event), event))
    if made is None:
        raise ValueError("a submission makes a job")
    return made


def trial_plan(gang: Gang, resolved: Resolved, trials: Trials, asker: Asker) -> TrialPlan:
    """The answer for a gang; `trials` has it in its queue."""
    start = trials.start(gang)
    standing = warned(explained(waiting(gang, trials), trials, asker), gang.excluded, trials)
    placement = _placement(start, resolved) if start else ()
    return TrialPlan(standing, resolved.cluster, price_of(gang, resolved.roles), placement)


def price_of(gang: Gang, roles: Sequence[ResolvedRole]) -> int | None:
    """What an hour of it costs, in micros of the platform's currency."""
    replicas = {role.name: role.replicas for role in gang.roles}
    prices = [
        role.price_micros_per_hour * replicas[role.name] for role in roles if role.price_micros_per_hour is not None
    ]
    return sum(prices) if prices else None


def _placement(start: Start, resolved: Resolved) -> tuple[RoleTrial, ...]:
    names = {node.id: node.name for node in start.layout.nodes}
    counts = Counter((seat.role, names[seat.node]) for seat in start.seats)
    gpus = {seat.role: len(seat.devices) for seat in start.seats}
    types = {role.name: role.instance_type for role in resolved.roles}
    return tuple(
        RoleTrial(
            role.name,
            role.pool,
            tuple((node, count) for (of, node), count in counts.items() if of == role.name),
            gpus.get(role.name, 0),
            types[role.name],
        )
        for role in start.gang.roles
    )
