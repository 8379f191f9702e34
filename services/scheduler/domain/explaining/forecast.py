"""When a waiting gang starts if every running gang takes as long as it may, and nobody else is submitted.

The cycles to come are planned one after the other: at each known end the gang that ends gives back what it holds, and
whoever starts holds it from then on. Gangs without a time limit never end in this picture, so an answer is a promise
that only failures of nodes and later submissions can break; where none can be given there is None.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import take
from services.scheduler.domain.planning.holding import Holding, Releases, holding_of
from services.scheduler.domain.planning.plan import Snapshot, Start, plan
from services.scheduler.domain.planning.running import Running
from services.scheduler.domain.planning.waiting import Queue

CYCLES_MAX: Final = 64
GANGS_MAX: Final = 200

_End = tuple[datetime, str]


def expected_start(job: str, trials: Trials) -> datetime | None:
    """When the job's gang starts at the latest.

    Where others are stopped for it, or many are in the queue, it is told only where a place is kept for it.
    """
    has_others_stopped = any(eviction.by.job == job for eviction in trials.plan.evictions)
    if has_others_stopped or len(trials.snapshot.queue) > GANGS_MAX:
        kept = trials.reservation(job)
        return kept.at if kept else None
    return next((at for at, starts in _cycles(trials) if any(start.gang.job == job for start in starts)), None)


def _cycles(trials: Trials) -> Iterator[tuple[datetime, tuple[Start, ...]]]:
    """The starts of each cycle to come."""
    now, snapshot = trials.now, trials.snapshot.frozen()
    ends = [(each.ends_by, gang) for gang, each in snapshot.running.items() if each.ends_by is not None]
    heapq.heapify(ends)
    for _ in range(CYCLES_MAX):
        starts = plan(snapshot, now).starts
        yield now, starts
        snapshot = _after_starts(snapshot, starts, now)
        for start in starts:
            if start.gang.longest_s is not None:
                heapq.heappush(ends, (now + timedelta(seconds=start.gang.longest_s), start.gang.job))
        if not ends:
            return
        now, snapshot = _after_end(snapshot, ends, now)


def _after_starts(snapshot: Snapshot, starts: tuple[Start, ...], now: datetime) -> Snapshot:
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
    started = {start.gang.job for start in starts}
    queue = Queue(gang for gang in snapshot.queue if gang.job not in started)
    return replace(snapshot, columns=columns, queue=queue, usage=usage, running=running, holding=held.__getitem__)


def _after_end(snapshot: Snapshot, ends: list[_End], now: datetime) -> tuple[datetime, Snapshot]:
    """The moment of the next end, and what there is then; what ends at one moment ends together."""
    at = max(ends[0][0], now)
    gone = []
    while ends and ends[0][0] <= at:
        gone.append(heapq.heappop(ends)[1])
    usage, running = snapshot.usage.copy(), dict(snapshot.running)
    columns: Columns = Releases(snapshot.columns, [snapshot.holding(gang) for gang in gone]).after(len(gone))
    for gang in gone:
        ended = running.pop(gang)
        usage.remove(ended.project, ended.owner, ended.roles)
    return at, replace(snapshot, columns=columns, usage=usage, running=running)
