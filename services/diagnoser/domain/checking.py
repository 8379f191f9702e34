"""Which idle nodes are to be checked in the background now: pure.

Nodes that an admin wants back are tested at once, and again ten minutes later where the test was broken off. Suspects
and bad nodes are tested again ten minutes after the last news of them, and then once an hour, until they pass. Where an
admin has set a schedule, nodes whose last test is too long ago are tested in its hours once none of the others is due,
whether or not their passes hold; that somebody has looked at them is no test. What is checked gets trusted idle nodes
as partners. Machines on which a job is, and lost nodes, are left alone: a test of one share of a machine would be felt
on the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from services.diagnoser.domain.book import Book, NodePage

FIRST_RECHECK: Final = timedelta(minutes=10)
NEXT_RECHECK: Final = timedelta(hours=1)
MOST_NODES: Final = 32
FEWEST_PARTNERS: Final = 2
_LOST: Final = "Lost"
_HOURS_A_DAY: Final = 24
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Every node is tested once in so many hours, from one hour of the day (UTC) up to another; 0 hours is never."""

    every_h: float = 0.0
    from_hour: int = 0
    to_hour: int = 0

    @classmethod
    def parse(cls, every_h: float, hours: str) -> Self:
        """The schedule of settings such as 24 and `1-5`; no hours are all of them. Raises ValueError."""
        if not hours:
            return cls(every_h)
        first, _, last = hours.partition("-")
        if not (first.isdecimal() and last.isdecimal() and max(int(first), int(last)) < _HOURS_A_DAY):
            raise ValueError(f"{hours!r} are no hours of the day; write them as 1-5 or 22-4")
        return cls(every_h, int(first), int(last))

    def is_open(self, now: datetime) -> bool:
        """Whether it is one of the hours."""
        if self.from_hour <= self.to_hour:
            return self.from_hour == self.to_hour or self.from_hour <= now.hour < self.to_hour
        return now.hour >= self.from_hour or now.hour < self.to_hour


@dataclass(frozen=True, slots=True)
class Due:
    """The nodes of the next check, with their partners; none where nothing is due. Passes count unless `thorough`."""

    nodes: tuple[str, ...] = ()
    thorough: bool = False


def due(book: Book, held: Collection[str], schedule: Schedule, now: datetime) -> Due:
    """What is to be checked now."""
    busy = {book.machine(node) for node in held}
    idle = [node for node, page in book.pages.items() if _is_there(page) and book.machine(node) not in busy]
    back = [node for node in idle if _is_to_return(book.pages[node], now)]
    suspects = [node for node in idle if _is_doubted(book, node, now) and _was_left_alone(book.pages[node], now)]
    urgent = list(dict.fromkeys([*back, *suspects]))
    old = [] if urgent else [node for node in idle if _is_old(book.pages[node], schedule, now)]
    wanted = [*urgent, *sorted(old, key=lambda node: _tested_at(book.pages[node]) or _LONG_AGO)][:MOST_NODES]
    if not wanted:
        return Due()
    wanted = [node for node in wanted if _cluster(book, node) == _cluster(book, wanted[0])]
    most_partners = max(FEWEST_PARTNERS, len(urgent))
    return Due((*wanted, *_partners(book, wanted, idle, most_partners, now)), thorough=not urgent)


def _cluster(book: Book, node: str) -> str:
    reported = book.pages[node].reported
    return reported.cluster if reported else ""


def _partners(book: Book, wanted: list[str], idle: list[str], most: int, now: datetime) -> Iterator[str]:
    trusted = [node for node in idle if node not in wanted and book.is_valid(node, now)]
    same = [node for node in trusted if _cluster(book, node) == _cluster(book, wanted[0])]
    yield from same[:most]


def _is_there(page: NodePage) -> bool:
    return page.reported is not None and page.state != _LOST


def _is_doubted(book: Book, node: str, now: datetime) -> bool:
    judged = book.pages[node].judged
    return book.belief(node, now).is_suspect or (judged is not None and judged.health != "good")


def _is_to_return(page: NodePage, now: datetime) -> bool:
    """Whether an admin wants it back, and no test for that was begun lately that gave no answer."""
    if page.wanted_back_at is None:
        return False
    if page.diagnosed is None or page.diagnosed_at is None or page.diagnosed.began < page.wanted_back_at:
        return True
    return now - page.diagnosed_at >= FIRST_RECHECK


def _was_left_alone(page: NodePage, now: datetime) -> bool:
    if page.suspected_at is not None and (page.diagnosed_at is None or page.diagnosed_at <= page.suspected_at):
        return now - page.suspected_at >= FIRST_RECHECK
    if page.diagnosed_at is None:
        return True
    again = page.diagnosed is not None and page.diagnosed.job == ""
    return now - page.diagnosed_at >= (NEXT_RECHECK if again else FIRST_RECHECK)


def _is_old(page: NodePage, schedule: Schedule, now: datetime) -> bool:
    if not schedule.every_h or not schedule.is_open(now):
        return False
    tested_at = _tested_at(page)
    if tested_at is None or page.diagnosed_at is None:
        return True
    return now - tested_at >= timedelta(hours=schedule.every_h) and now - page.diagnosed_at >= _looks_apart(schedule)


def _tested_at(page: NodePage) -> datetime | None:
    """When it passed; where something was heard of it since, when it was diagnosed last."""
    return page.passed_at or page.diagnosed_at


def _looks_apart(schedule: Schedule) -> timedelta:
    """How long after a test that was broken off it is made again."""
    return min(FIRST_RECHECK, timedelta(hours=schedule.every_h))
