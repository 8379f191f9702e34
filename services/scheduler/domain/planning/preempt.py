"""Which running gangs make room for the first gang of a pool that does not fit: whole gangs, as few as will do.

A gang may be stopped where it says so (`preemptible`), where all of its pools allow it, where its priority is lower
(as written, not as aged, so that the one that was stopped does not come back for its place), and once it has run for
its pool's protected time. Gangs are only stopped if the other then fits. Those of the lowest priority and with the
least work lost are taken, as many as it needs; then each of them, the dearest first, is let off if it fits without.

While gangs that were told to stop have yet to end, and would make enough room, nobody else is stopped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from services.scheduler.domain.gang import Gang, Pool
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import fit
from services.scheduler.domain.planning.holding import Holding, Releases
from services.scheduler.domain.planning.running import Running

Held = tuple[Running, Holding]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A gang that is stopped, and the one that it makes room for."""

    victim: Running
    by: Gang


def preempt(
    gang: Gang, free: Columns, running: Sequence[Held], pools: Mapping[str, Pool], now: datetime
) -> tuple[Eviction, ...]:
    """Gangs to stop, so that this one fits once they have ended; none where that does not help or need not be."""
    base = _after_endings(free, running)
    victims = sorted(
        (each for each in running if _may_stop(each[0], gang, pools, now)), key=lambda each: _cost(each, now)
    )
    releases = Releases(base, [held for _, held in victims])
    if not victims or fit(gang, base) is not None or fit(gang, releases.after(len(victims))) is None:
        return ()
    count = bisect_left(range(len(victims)), 1, key=lambda count: int(fit(gang, releases.after(count)) is not None))
    let_off = set(range(count, len(victims)))
    for number in reversed(range(count)):
        if fit(gang, releases.without(let_off | {number})) is not None:
            let_off.add(number)
    return tuple(Eviction(victim, gang) for number, (victim, _) in enumerate(victims) if number not in let_off)


def _after_endings(free: Columns, running: Sequence[Held]) -> Columns:
    ending = [held for each, held in running if each.ending]
    return Releases(free, ending).after(len(ending)) if ending else free


def _may_stop(victim: Running, gang: Gang, pools: Mapping[str, Pool], now: datetime) -> bool:
    lesser = victim.preemptible and not victim.ending and victim.priority < gang.priority
    return lesser and all(_allows(pools.get(pool), now - victim.since) for pool in victim.pools)


def _allows(pool: Pool | None, age: timedelta) -> bool:
    return pool is not None and pool.preemption is not None and age.total_seconds() >= pool.preemption.protected_s


def _cost(held: Held, now: datetime) -> tuple[int, int, str]:
    """What is lost with it: its priority, then the time that its GPUs, or else its cores, have worked."""
    victim, _ = held
    seconds = int((now - victim.since).total_seconds())
    return (
        victim.priority,
        seconds * sum(_weight(role.request.gpus, role.request.cpu_m) * role.replicas for role in victim.roles),
        victim.gang,
    )


def _weight(gpus: int, cpu_m: int) -> int:
    """A GPU counts as much as sixteen cores."""
    return gpus * 16_000 + cpu_m
