"""Checks of idle nodes in the background: one at a time, looked for once a minute; see `domain.checking`.

All instances look. A check of the same nodes in the same minute has the same name whoever asks for it, so it is asked
for once, unless an admin has wanted one of them back since. Nodes that an admin wants back are looked for at once.
Beside that they tell, for the scheduler, which nodes are suspect by what jobs did on them.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from services.diagnoser.adapters.ledger import HealthLedger
from services.diagnoser.domain.checking import Schedule, due
from services.diagnoser.on_demand import Holdings, OnDemand, Wanted
from shared.bus import BusUnavailableError
from shared.clock import Clock
from shared.errors import TrainmasterError
from shared.ids import hashed_id
from shared.tasks import end

TICK_S: Final = 60.0
AUTHOR: Final = "schedule"


class BackgroundChecks:
    """Has nodes checked when they are due."""

    def __init__(
        self, on_demand: OnDemand, ledger: HealthLedger, holdings: Holdings, schedule: Schedule, clock: Clock
    ) -> None:
        self._on_demand = on_demand
        self._ledger = ledger
        self._holdings = holdings
        self._schedule = schedule
        self._clock = clock
        self._log = structlog.get_logger(service="diagnoser")

    async def run(self) -> None:
        """Look for ever."""
        await self._ledger.caught_up.wait()
        await self._holdings.caught_up.wait()
        while True:
            await self._until_next()
            await self.look()

    async def _until_next(self) -> None:
        """A minute, or until there is news that it should not wait for."""
        waits = [asyncio.create_task(self._clock.sleep(TICK_S)), asyncio.create_task(self._ledger.news.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(*waits)
        self._ledger.news.clear()

    async def look(self) -> None:
        """Tell which nodes are suspect, and check what is due, unless a check is running."""
        try:
            await self._ledger.tell_suspicions()
        except BusUnavailableError as error:
            self._log.warning("suspicions_not_told", reason=error.message)
        found = due(self._ledger.book, self._holdings.held(), self._schedule, self._clock.now())
        if not found.nodes or self._on_demand.is_under_way(AUTHOR):
            return
        try:
            wanted = Wanted(found.nodes, thorough=found.thorough, idle_only=True)
            await self._on_demand.request(AUTHOR, wanted, self._name(found.nodes))
        except TrainmasterError as error:
            self._log.warning("check_not_begun", nodes=list(found.nodes), reason=error.message)

    def _name(self, nodes: tuple[str, ...]) -> str:
        minute = self._clock.now().replace(second=0, microsecond=0)
        recalled = (self._ledger.book.pages[node].wanted_back_at for node in nodes)
        return hashed_id("dg", AUTHOR, minute.isoformat(), *nodes, *(at.isoformat() for at in recalled if at))
