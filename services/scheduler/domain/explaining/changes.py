"""The smallest changes of a gang that start it now. Each one has been planned, with everybody else in the queue.

Whoever wants one applies it with `trainmaster rerun JOB --set …`; `settings` are what to write there.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Final

from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.gang import Gang, RoleAsk, Topology
from services.scheduler.domain.nodes import Request
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import fit

TYPES_TRIED: Final = 4
_PLAIN: Final = re.compile(r"(?!(true|false|null|yes|no|on|off|y|n)$)[A-Za-z][\w.-]*", re.ASCII | re.IGNORECASE)
_SHORTEST_RUN_S: Final = 60


@dataclass(frozen=True, slots=True)
class Offers:
    """What a role could have instead, as far as the asker may use it: pools, and instance types of its own pool.

    A pool comes with what to write for `pool` in a job.
    """

    pools: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, Request] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """One change, in words and as the values before and after; `gang` is the gang with it."""

    kind: str
    text: str
    gang: Gang = field(repr=False, compare=False)
    role: str = ""
    before: str = ""
    after: str = ""
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Means:
    """What changes are made of: what roles could have instead, and what an attempt takes beside its `maxRunTime`."""

    offers: Mapping[str, Offers] = field(default_factory=dict)
    overhead_s: float = 0.0

    def of(self, role: RoleAsk) -> Offers:
        """What the role could have instead."""
        return self.offers.get(role.name, Offers())


def changes(gang: Gang, trials: Trials, means: Means) -> Iterator[Change]:
    """Changes each of which starts the gang now."""
    yield from _fewer(gang, trials)
    yield from (change for change in elsewhere(gang, means) if _starts(change, trials))
    for index in range(len(gang.roles)):
        found = (change for change in smaller(gang, index, means) if _starts(change, trials))
        yield from filter(None, (next(found, None),))
    yield from (change for change in eased(gang) if _starts(change, trials))
    yield from (change for change in _shorter(gang, trials, means.overhead_s) if _starts(change, trials))


def _starts(change: Change, trials: Trials) -> bool:
    return trials.start(change.gang) is not None


# --- fewer replicas


def _fewer(gang: Gang, trials: Trials) -> Iterator[Change]:
    """The most replicas of each role, and of all roles in proportion, with which the gang starts."""
    told = set()
    for index, role in enumerate(gang.roles):
        made = _most_that_starts(partial(_with_replicas, gang, index), role.replicas, trials)
        if made is not None:
            told.add(made.roles)
            yield _with_fewer(gang, made, role.name)
    largest = max(role.replicas for role in gang.roles)
    made = _most_that_starts(lambda part: _in_proportion(gang, part, largest), largest, trials)
    if made is not None and made.roles not in told:
        yield _with_fewer(gang, made)


def _most_that_starts(make: Callable[[int], Gang], before: int, trials: Trials) -> Gang | None:
    """The gang with the most, less than before, with which it starts; what does not fit alone is not planned."""
    most = _most(before - 1, lambda count: fit(make(count), trials.snapshot.columns) is not None)
    if most and trials.start(make(most)) is None:
        most = _most(most - 1, lambda count: trials.start(make(count)) is not None)
    return make(most) if most else None


def most_that_fit(gang: Gang, index: int, columns: Columns) -> int:
    """The most replicas of a role, fewer than it has, with which the gang fits if it is alone in the queue."""
    make = partial(_with_replicas, gang, index)
    return _most(gang.roles[index].replicas - 1, lambda count: fit(make(count), columns) is not None)


def _most(limit: int, good: Callable[[int], bool]) -> int:
    """The largest number up to the limit that is good, where every smaller one is, too; 0 where none is."""
    return bisect_left(range(1, limit + 1), 1, key=lambda number: int(not good(number)))


def _with_replicas(gang: Gang, index: int, replicas: int) -> Gang:
    return _with(gang, index, replicas=replicas)


def _in_proportion(gang: Gang, part: int, whole: int) -> Gang:
    roles = (replace(role, replicas=max(1, role.replicas * part // whole)) for role in gang.roles)
    return replace(gang, roles=tuple(roles))


def _with_fewer(gang: Gang, made: Gang, role: str = "") -> Change:
    """The change from one gang to another that has fewer replicas of some roles."""
    pairs = [(index, *both) for index, both in enumerate(zip(gang.roles, made.roles, strict=True))]
    fewer = [(index, old, new) for index, old, new in pairs if old.replicas != new.replicas]
    return Change(
        "replicas",
        " and ".join(f"{new.replicas} instead of {old.replicas} replicas of role {old.name}" for _, old, new in fewer),
        made,
        role,
        ", ".join(str(old.replicas) for _, old, _ in fewer),
        ", ".join(str(new.replicas) for _, _, new in fewer),
        tuple(f"spec.roles.{index}.replicas={new.replicas}" for index, _, new in fewer),
    )


# --- something else


def elsewhere(gang: Gang, means: Means) -> Iterator[Change]:
    """Another pool for a role, and for all roles at once where they are in one; not all of these start it."""
    for index, role in enumerate(gang.roles):
        for pool in sorted(means.of(role).pools.keys() - {role.pool}):
            yield _moved(gang, (index,), pool, means)
    if len(gang.roles) > 1 and len(gang.pools) == 1:
        shared = set.intersection(*(set(means.of(role).pools) for role in gang.roles)) - set(gang.pools)
        yield from (_moved(gang, range(len(gang.roles)), pool, means) for pool in sorted(shared))


def _moved(gang: Gang, indices: Sequence[int], pool: str, means: Means) -> Change:
    made, role = gang, gang.roles[indices[0]]
    for index in indices:
        made = _with(made, index, pool=pool)
    whose = f"role {role.name}" if len(indices) == 1 else "all roles"
    return Change(
        "pool",
        f"pool {pool!r} instead of {role.pool!r} for {whose}",
        made,
        role.name if len(indices) == 1 else "",
        role.pool,
        pool,
        tuple(f"spec.roles.{index}.pool={means.of(gang.roles[index]).pools[pool]}" for index in indices),
    )


def smaller(gang: Gang, index: int, means: Means) -> Iterator[Change]:
    """Smaller instance types, those with the most GPUs and then the largest first; not all of these start it."""
    role = gang.roles[index]
    types = [(name, asked) for name, asked in means.of(role).types.items() if _is_smaller(asked, role.request)]
    types.sort(key=lambda found: (-found[1].gpus, -found[1].cpu_m, -found[1].memory_bytes, found[0]))
    for name, asked in types[:TYPES_TRIED]:
        text, setting = f"instance type {name} for role {role.name}", f"spec.roles.{index}.instanceType={as_yaml(name)}"
        yield Change("type", text, _with(gang, index, request=asked), role.name, "", name, (setting,))


def _is_smaller(one: Request, other: Request) -> bool:
    """Whether it asks for no more of anything, for less of something, and for GPUs where the other does."""
    amounts = ((one.cpu_m, other.cpu_m), (one.memory_bytes, other.memory_bytes), (one.gpus, other.gpus))
    same_kind = bool(one.gpus) is bool(other.gpus) and one.gpu_model == other.gpu_model
    return same_kind and all(a <= b for a, b in amounts) and any(a < b for a, b in amounts)


def eased(gang: Gang) -> Iterator[Change]:
    """Without the user's own conditions."""
    if gang.excluded:
        made = replace(gang, excluded=frozenset())
        yield Change("nodes", "an empty excludeNodes", made, settings=("spec.excludeNodes=null",))
    if gang.topology.hard:
        made, text = replace(gang, topology=Topology(gang.topology.level)), "topology.mode soft instead of hard"
        yield Change("topology", text, made, "", "hard", "soft", ("spec.topology.mode=soft",))


def _shorter(gang: Gang, trials: Trials, overhead_s: float) -> Iterator[Change]:
    """A time limit with which it is gone before any place that is kept for others is needed."""
    needed = [kept.at for kept in trials.plan.reservations if kept.at is not None and kept.gang.job != gang.job]
    if not needed:
        return
    longest_s = (min(needed) - trials.now) / timedelta(seconds=1)
    run_s = int(longest_s - overhead_s) // _SHORTEST_RUN_S * _SHORTEST_RUN_S
    if run_s < _SHORTEST_RUN_S or (gang.longest_s is not None and gang.longest_s <= longest_s):
        return
    limit = f"{run_s // _SHORTEST_RUN_S}m"
    text = f"maxRunTime {limit}, with which it is gone before the room is needed that is kept for others"
    made = replace(gang, longest_s=run_s + overhead_s)
    yield Change("maxRunTime", text, made, after=limit, settings=(f"spec.maxRunTime={limit}",))


def as_yaml(name: str) -> str:
    """A name as YAML that means this text and nothing else, also within braces."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _with(
    gang: Gang, index: int, *, replicas: int | None = None, pool: str | None = None, request: Request | None = None
) -> Gang:
    role = gang.roles[index]
    changed = RoleAsk(role.name, replicas or role.replicas, pool or role.pool, request or role.request)
    return replace(gang, roles=(*gang.roles[:index], changed, *gang.roles[index + 1 :]))
