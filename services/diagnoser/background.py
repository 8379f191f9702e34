"""Checks of idle nodes in the background: one at a time, looked for once a minute; see `domain.checking`."""

from __future__ import annotations

from typing import Final

import structlog

from services.diagnoser.adapters.ledger import HealthLedger
from services.diagnoser.domain.checking import Schedule, due
from services.diagnoser.on_demand import Holdings, OnDemand, Wanted
from shared.clock import Clock
from shared.errors import TrainmasterError

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
        while True:
            await self._clock.sleep(TICK_S)
            await self.look()

    async def look(self) -> None:
        """Check what is due, unless a check is running."""
        nodes = due(self._ledger.book, self._holdings.held(), self._schedule, self._clock.now())
        if not nodes or self._on_demand.is_running(AUTHOR):
            return
        try:
            await self._on_demand.start(AUTHOR, Wanted(nodes, thorough=False))
        except TrainmasterError as error:
            self._log.warning("check_not_begun", nodes=list(nodes), reason=error.message)
