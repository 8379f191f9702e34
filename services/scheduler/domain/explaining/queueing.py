"""What keeps a gang from starting that would fit on the nodes as they are: those that are before it in the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from services.scheduler.domain.blocker import Blocker
from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.gang import Gang, QueuePolicy
from shared.clock import rfc3339

MayKnow = Callable[[str], bool]


def queue_blocker(gang: Gang, trials: Trials, may_know: MayKnow) -> Blocker | None:
    """Whom it waits for; None where it starts in this very cycle."""
    if any(start.gang.job == gang.job for start in trials.plan.starts):
        return None
    detail = _reserved(gang, trials, may_know) or _fifo(gang, trials, may_know) or _before(gang, trials)
    return Blocker("", "queue", 1, 0, 1, 0, detail)


def _reserved(gang: Gang, trials: Trials, may_know: MayKnow) -> str:
    for kept in trials.plan.reservations:
        if kept.gang.job != gang.job and _share_pools(kept.gang, gang):
            until = f", which needs it by {rfc3339(kept.at)} at the latest" if kept.at else ""
            return f"the room that it would take is kept for {_named(kept.gang, may_know)}{until}"
    return ""


def _fifo(gang: Gang, trials: Trials, may_know: MayKnow) -> str:
    """The first of those before it in a `fifo` pool of its own that does not start."""
    pools = trials.snapshot.pools
    fifo = [name for name in gang.pools if name in pools and pools[name].policy is QueuePolicy.FIFO]
    starting = {start.gang.job for start in trials.plan.starts}
    for other in trials.snapshot.gangs:
        if other.job == gang.job:
            return ""
        shared = [name for name in fifo if name in other.pools]
        if shared and other.job not in starting:
            return f"pool {shared[0]!r} is a fifo pool, and {_named(other, may_know)} before it does not fit"
    return ""


def _before(gang: Gang, trials: Trials) -> str:
    count = sum(_share_pools(start.gang, gang) for start in trials.plan.starts)
    return f"{count} gangs before it in the queue start now and take the room"


def _named(gang: Gang, may_know: MayKnow) -> str:
    return f"job {gang.job}" if may_know(gang.job) else "a job of others"


def _share_pools(one: Gang, other: Gang) -> bool:
    pools: Iterable[str] = one.pools
    return not set(pools).isdisjoint(other.pools)
