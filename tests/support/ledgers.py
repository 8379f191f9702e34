"""A ledger of node health in memory, filled as the events of diagnoses fill it."""

from __future__ import annotations

from datetime import UTC, datetime

from services.diagnoser.domain.book import Book
from services.diagnoser.domain.examination import Examination
from services.diagnoser.domain.reports import Occasion, part_of
from shared.events import Event
from shared.jobs import Recorded

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def remember(book: Book, examination: Examination, nodes: tuple[str, ...], at: datetime = NOW) -> None:
    """Put the examination into the book, as its events would."""
    for node in nodes:
        occasion = Occasion("dg-1", "main", at, {})
        part = part_of(examination, examination.finding(node), occasion, {}, node_count=len(nodes), now=at)
        event = Event.of(part, job=node, attempt=0, time=at, owner="", project="")
        book.take(Recorded(1, f"tm.node.main.{node}.diagnosed", event))
