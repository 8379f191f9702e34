"""Checks in the background: what is due is begun, one check at a time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from services.diagnoser.adapters.ledger import HealthLedger
from services.diagnoser.background import AUTHOR, BackgroundChecks
from services.diagnoser.domain.book import Book
from services.diagnoser.domain.checking import Schedule
from services.diagnoser.on_demand import OnDemand, Wanted
from shared import events as ev
from shared.bus import BusUnavailableError
from shared.clock import ManualClock
from shared.errors import ConflictError
from shared.jobs import Recorded

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Ledger:
    def __init__(self) -> None:
        self.told = 0
        self.is_away = False
        self.book = Book()
        for payload in (
            ev.NodeReported(cluster="main", node="n-1", cpu_millis=1, memory_bytes=1),
            ev.NodeSuspected(cluster="main", node="n-1", job="tj-a", attempt=1, rule="xid-79"),
        ):
            event = ev.Event.of(payload, job="n-1", attempt=0, time=NOW, owner="", project="")
            self.book.take(Recorded(1, "tm.node.main.n-1.x", event))

    async def tell_suspicions(self) -> None:
        if self.is_away:
            raise BusUnavailableError("away")
        self.told += 1


class Begun:
    def __init__(self) -> None:
        self.wanted: list[Wanted] = []
        self.names: list[str] = []
        self.running = False
        self.refuses = False

    def is_under_way(self, by: str) -> bool:
        return self.running and by == AUTHOR

    async def request(self, by: str, wanted: Wanted, check: str) -> Any:
        assert by == AUTHOR
        self.names.append(check)
        if self.refuses:
            raise ConflictError("too many")
        self.wanted.append(wanted)
        self.running = True


class Held:
    caught_up = asyncio.Event()

    def __init__(self, *nodes: str) -> None:
        self._nodes = frozenset(nodes)

    def held(self) -> frozenset[str]:
        return self._nodes


def checks(
    begun: Begun, holdings: Held, after: timedelta = timedelta(hours=1), ledger: Ledger | None = None
) -> BackgroundChecks:
    known = cast("HealthLedger", ledger or Ledger())
    return BackgroundChecks(cast("OnDemand", begun), known, holdings, Schedule(), ManualClock(NOW + after))


async def test_a_suspect_that_is_idle_is_checked_once() -> None:
    begun = Begun()
    background = checks(begun, Held())
    await background.look()
    await background.look()
    assert begun.wanted == [Wanted(("n-1",), thorough=False, idle_only=True)]


async def test_a_suspect_that_a_job_holds_is_left_alone() -> None:
    begun = Begun()
    await checks(begun, Held("n-1")).look()
    assert begun.wanted == []


async def test_a_check_that_cannot_begin_now_is_tried_again_later() -> None:
    begun = Begun()
    background = checks(begun, Held())
    begun.refuses = True
    await background.look()
    begun.refuses = False
    await background.look()
    assert len(begun.wanted) == 1


async def test_all_instances_ask_for_the_check_of_a_minute_by_the_same_name() -> None:
    one, other, later = Begun(), Begun(), Begun()
    await checks(one, Held()).look()
    await checks(other, Held(), after=timedelta(hours=1, seconds=20)).look()
    await checks(later, Held(), after=timedelta(hours=1, seconds=60)).look()
    assert one.names == other.names != later.names


async def test_a_node_that_is_wanted_back_again_in_the_same_minute_is_checked_again() -> None:
    begun, ledger = Begun(), Ledger()
    background = checks(begun, Held(), ledger=ledger)
    for seconds in (1, 2):
        back = ev.NodeRecalled(cluster="main", node="n-1", by="root", reason="a new fan")
        at = NOW + timedelta(hours=1, seconds=seconds)
        event = ev.Event.of(back, job="n-1", attempt=0, time=at, owner="", project="")
        ledger.book.take(Recorded(seconds, "tm.node.main.n-1.recalled", event))
        begun.running = False
        await background.look()
    assert len(set(begun.names)) == 2


async def test_suspicions_are_told_each_time_and_checks_do_not_wait_for_them() -> None:
    begun, ledger = Begun(), Ledger()
    background = checks(begun, Held(), ledger=ledger)
    ledger.is_away = True
    await background.look()
    assert len(begun.wanted) == 1
    ledger.is_away = False
    await background.look()
    assert ledger.told == 1
