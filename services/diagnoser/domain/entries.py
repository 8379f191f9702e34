"""What the ledger says of one node now: how likely it and its parts are bad, whose pass holds, what was found last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from services.diagnoser.domain.beliefs import Belief
from services.diagnoser.domain.book import Book, NodePage
from services.diagnoser.domain.passes import VALID_H

_WORTH_TELLING: Final = 0.01


@dataclass(frozen=True, slots=True)
class Entry:
    """One node in the ledger; `parts` are its devices, and links to others, about which there is a doubt."""

    node: str
    page: NodePage
    belief: Belief
    pass_until: datetime | None
    parts: Mapping[str, Belief]


def entry_of(book: Book, node: str, now: datetime) -> Entry | None:
    """The node's entry; None where nothing was ever heard of it."""
    page = book.pages.get(node)
    if page is None:
        return None
    holds = page.passed_at is not None and book.is_valid(node, now)
    parts = {part: belief for part, belief in book.about(node, now).items() if belief.suspicion >= _WORTH_TELLING}
    return Entry(
        node=node,
        page=page,
        belief=book.belief(node, now),
        pass_until=page.passed_at + timedelta(hours=VALID_H) if holds and page.passed_at else None,
        parts=dict(sorted(parts.items(), key=lambda each: -each[1].suspicion)),
    )
