"""When a waiting gang starts if every running gang takes as long as it may, and nobody else is submitted.

The cycles to come are planned one after the other: at each known end the gang that ends gives back what it holds, and
whoever starts holds it from then on. Gangs without a time limit never end in this picture, so an answer is a promise
that only failures of nodes and later submissions can break; where none can be given there is None.

A full cluster has thousands of ends to come, and each cycle takes as long as a plan. So only the first ones are looked
at one by one; later on more and more of them count as one, at the moment of the last: the promise gets later by that.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.gang import Gang
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import take
from services.scheduler.domain.planning.holding import Holding, Releases, holding_of
from services.scheduler.domain.planning.plan import Snapshot, Start, plan
from services.scheduler.domain.planning.running import Running
from services.scheduler.domain.planning.waiting import Queue

GANGS_MAX: Final = 1_000
CYCLES_MAX: Final = 48
_ONE_BY_ONE: Final = 12
_GROWTH: Final = 1.3

_End = tuple[datetime, str]


def expected_start(job: str, trials: Trials) -> datetime | None:
    """When the job's gang starts at the latest.

    Where others are stopped for it, or too many are before it, it is told only where a place is kept for it.
    """
    ahead = tuple(islice(trials.snapshot.gangs, GANGS_MAX))
    has_others_stopped = any(eviction.by.job == job for eviction in trials.plan.evictions)
    if has_others_stopped or all(gang.job != job for gang in ahead):
        kept = trials.reservation(job)
        return kept.at if kept else None
    return next((at for at, starts in _cycles(trials, ahead) if any(start.gang.job == job for start in starts)), None)


def _cycles(trials: Trials, waiting: tuple[Gang, ...]) -> Iterator[tuple[datetime, tuple[Start, ...]]]:
    """The starts of each cycle to come, with these gangs in the queue."""
    now, snapshot = trials.now, replace(trials.snapshot.frozen(), queue=Queue(waiting))
    ends = [(each.ends_by, gang) for gang, each in snapshot.running.items() if each.ends_by is not None]
    heapq.heapify(ends)
    for number in range(CYCLES_MAX):
        starts = plan(snapshot, now).starts
        yield now, starts
        snapshot = _after_starts(snapshot, starts, now)
        for start in starts:
            if start.gang.longest_s is not None:
                heapq.heappush(ends, (now + timedelta(seconds=start.gang.longest_s), start.gang.job))
        if not ends:
            return
        now, snapshot = _after_ends(snapshot, ends, now, int(_GROWTH ** max(number - _ONE_BY_ONE, 0)))


def _after_starts(snapshot: Snapshot, starts: tuple[Start, ...], now: datetime) -> Snapshot:
    """What there is once these gangs hold their places; the queue, which is this forecast's own, loses them."""
    columns, usage, running = snapshot.columns.copy(), snapshot.usage.copy(), dict(snapshot.running)
    held: dict[str, Holding] = {gang: snapshot.holding(gang) for gang in running}
    for start in starts:
        gang = start.gang
        take(start.places, columns)
        usage.add(gang.project, gang.owner, gang.roles)
        ends_by = now + timedelta(seconds=gang.longest_s) if gang.longest_s is not None else None
        running[gang.job] = Running(
            gang.job, gang.job, gang.priority, gang.project, gang.owner, gang.roles, now, ends_by
        )
        held[gang.job] = holding_of(start.places)
        snapshot.queue.remove(gang.job)
    return replace(snapshot, columns=columns, usage=usage, running=running, holding=held.__getitem__)


def _after_ends(snapshot: Snapshot, ends: list[_End], now: datetime, count: int) -> tuple[datetime, Snapshot]:
    """The moment of the last of the next so many ends, and what there is then; what ends by then ends together."""
    gone: list[str] = []
    at = now
    while ends and (len(gone) < count or ends[0][0] <= at):
        ended_at, gang = heapq.heappop(ends)
        at = max(at, ended_at)
        gone.append(gang)
    usage, running = snapshot.usage.copy(), dict(snapshot.running)
    columns: Columns = Releases(snapshot.columns, [snapshot.holding(gang) for gang in gone]).after(len(gone))
    for gang in gone:
        ended = running.pop(gang)
        usage.remove(ended.project, ended.owner, ended.roles)
    return at, replace(snapshot, columns=columns, usage=usage, running=running)
