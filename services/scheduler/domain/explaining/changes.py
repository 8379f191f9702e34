"""The smallest changes of a gang that start it now. Each one has been planned, with everybody else in the queue.

Whoever wants one applies it with `trainmaster rerun JOB --set …`; `setting` is what to write there, where it is a
change of the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.gang import Gang, RoleAsk, Topology
from services.scheduler.domain.nodes import Request
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import fit

_TYPES_TRIED: Final = 4
_SHORTEST_RUN_S: Final = 60


@dataclass(frozen=True, slots=True)
class Offers:
    """What a role could have instead, as far as the asker may use it: pools, and instance types of its own pool."""

    pools: Sequence[str] = ()
    types: Mapping[str, Request] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """One change, in words and as the values before and after; `gang` is the gang with it."""

    kind: str
    text: str
    role: str = ""
    before: str = ""
    after: str = ""
    setting: str = ""
    gang: Gang | None = field(default=None, repr=False, compare=False)


def changes(gang: Gang, trials: Trials, offers: Mapping[str, Offers], overhead_s: float) -> tuple[Change, ...]:
    """Changes each of which starts the gang now; `overhead_s` is what an attempt may take beside its `maxRunTime`."""
    candidates = (
        *(_fewer(gang, index, trials) for index in range(len(gang.roles))),
        *(change for index in range(len(gang.roles)) for change in _elsewhere(gang, index, offers)),
        *(_smaller(gang, index, offers, trials) for index in range(len(gang.roles))),
        *_eased(gang),
        _shorter(gang, trials, overhead_s),
    )
    return tuple(change for change in candidates if change is not None and _starts(change, trials))


def _starts(change: Change, trials: Trials) -> bool:
    return change.gang is not None and trials.start(change.gang) is not None


def _fewer(gang: Gang, index: int, trials: Trials) -> Change | None:
    """The most replicas of a role with which the gang starts."""
    role = gang.roles[index]
    low, high = 0, min(role.replicas - 1, most_that_fit(gang, index, trials.snapshot.columns))
    if high and trials.start(_with(gang, index, replicas=high)) is not None:
        low = high
    while low < high:
        middle = (low + high + 1) // 2
        starts = trials.start(_with(gang, index, replicas=middle)) is not None
        low, high = (middle, high) if starts else (low, middle - 1)
    if not low:
        return None
    return Change(
        "replicas",
        f"{low} instead of {role.replicas} replicas of role {role.name}",
        role.name,
        str(role.replicas),
        str(low),
        f"spec.roles.{index}.replicas={low}",
        _with(gang, index, replicas=low),
    )


def most_that_fit(gang: Gang, index: int, columns: Columns) -> int:
    """The most replicas of a role, fewer than it has, with which the gang fits if it is alone in the queue."""
    low, high = 0, gang.roles[index].replicas - 1
    while low < high:
        middle = (low + high + 1) // 2
        fits = fit(_with(gang, index, replicas=middle), columns) is not None
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _elsewhere(gang: Gang, index: int, offers: Mapping[str, Offers]) -> Iterator[Change]:
    role = gang.roles[index]
    for pool in sorted(set(offers.get(role.name, Offers()).pools) - {role.pool}):
        yield Change(
            "pool",
            f"pool {pool!r} instead of {role.pool!r} for role {role.name}",
            role.name,
            role.pool,
            pool,
            gang=_with(gang, index, pool=pool),
        )


def _smaller(gang: Gang, index: int, offers: Mapping[str, Offers], trials: Trials) -> Change | None:
    """The largest smaller instance type with which the gang starts, with as many GPUs of the same model first."""
    role = gang.roles[index]
    types = offers.get(role.name, Offers()).types
    smaller = [(name, asked) for name, asked in types.items() if _is_smaller(asked, role.request)]
    smaller.sort(key=lambda found: (-found[1].gpus, -found[1].cpu_m, -found[1].memory_bytes, found[0]))
    for name, asked in smaller[:_TYPES_TRIED]:
        changed = _with(gang, index, request=asked)
        if trials.start(changed) is not None:
            text = f"instance type {name} for role {role.name}"
            return Change("type", text, role.name, "", name, f"spec.roles.{index}.instanceType={name}", changed)
    return None


def _is_smaller(one: Request, other: Request) -> bool:
    """Whether it asks for no more of anything, for less of something, and for GPUs where the other does."""
    amounts = ((one.cpu_m, other.cpu_m), (one.memory_bytes, other.memory_bytes), (one.gpus, other.gpus))
    same_kind = bool(one.gpus) is bool(other.gpus) and one.gpu_model == other.gpu_model
    return same_kind and all(a <= b for a, b in amounts) and any(a < b for a, b in amounts)


def _eased(gang: Gang) -> Iterator[Change]:
    """Without the user's own conditions."""
    if gang.excluded:
        eased = replace(gang, excluded=frozenset())
        yield Change("nodes", "an empty excludeNodes", setting="spec.excludeNodes=null", gang=eased)
    if gang.topology.hard:
        eased = replace(gang, topology=Topology(gang.topology.level))
        text = "topology.mode soft instead of hard"
        yield Change("topology", text, before="hard", after="soft", setting="spec.topology.mode=soft", gang=eased)


def _shorter(gang: Gang, trials: Trials, overhead_s: float) -> Change | None:
    """A time limit with which it is gone before any place that is kept for others is needed."""
    needed = [kept.at for kept in trials.plan.reservations if kept.at is not None and kept.gang.job != gang.job]
    if not needed:
        return None
    longest_s = (min(needed) - trials.now) / timedelta(seconds=1)
    run_s = int(longest_s - overhead_s) // _SHORTEST_RUN_S * _SHORTEST_RUN_S
    if run_s < _SHORTEST_RUN_S or (gang.longest_s is not None and gang.longest_s <= longest_s):
        return None
    limit = f"{run_s // _SHORTEST_RUN_S}m"
    text = f"maxRunTime {limit}, with which it is gone before the room is needed that is kept for others"
    return Change(
        "maxRunTime",
        text,
        after=limit,
        setting=f"spec.maxRunTime={limit}",
        gang=replace(gang, longest_s=run_s + overhead_s),
    )


def _with(
    gang: Gang, index: int, *, replicas: int | None = None, pool: str | None = None, request: Request | None = None
) -> Gang:
    role = gang.roles[index]
    changed = RoleAsk(role.name, replicas or role.replicas, pool or role.pool, request or role.request)
    return replace(gang, roles=(*gang.roles[:index], changed, *gang.roles[index + 1 :]))
