"""Answers about the queue do not keep those who change it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import cast

from services.scheduler.control.world import World
from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.handlers.standings import StandingHandlers
from shared.bus import Bus
from shared.catalog import CatalogWatch
from shared.clock import SystemClock
from shared.readmodel import JobReadModel
from tests.support.cluster import gang, node

NOBODY = cast("Bus", None)


async def test_an_answer_is_planned_beside_scheduling_from_what_there_was_when_it_was_asked(tmp_path: Path):
    world, jobs = World(), JobReadModel(tmp_path / "jobs.sqlite", NOBODY)
    world.set_nodes([node("a"), node("b")])
    jobs.caught_up.set()
    begun, may_end = threading.Event(), threading.Event()

    def answer(trials: Trials) -> tuple[bool, int, list[str]]:
        begun.set()
        went_on = may_end.wait(10)
        return went_on, len(trials.snapshot.columns), [each.job for each in trials.snapshot.queue]

    standings = StandingHandlers(world, CatalogWatch(NOBODY), jobs, SystemClock())
    asked = asyncio.create_task(standings.answered(answer, gang(job="tj-new")))
    await asyncio.to_thread(begun.wait, 10)
    world.set_nodes([])
    may_end.set()
    assert await asked == (True, 2, ["tj-new"])
    assert world.queued == 0
