"""Trying the rules on logs that somebody sends: in a thread, as megabytes of text take a while, and a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from services.watchdog.domain.backtest import Log, Outcome, try_out
from services.watchdog.domain.terms import Terms
from services.watchdog.rulebooks import Rulebooks
from shared.jobspec.models import Retry

AT_ONCE: Final = 2


class Backtests:
    """The use case of `POST /v1/rules/test`."""

    def __init__(self, rulebooks: Rulebooks) -> None:
        self._rulebooks = rulebooks
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def run(self, logs: Sequence[Log], exit_code: int, retry: Retry) -> Outcome:
        """What the rules make of these logs, those of admins included."""
        terms = Terms.with_retry(retry)
        rules = await self._rulebooks.of(terms)
        async with self._turns:
            return await asyncio.to_thread(try_out, logs, exit_code, terms, rules, self._rulebooks.catalogue)
