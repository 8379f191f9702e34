"""How long a diagnosis takes on this machine, with the real probe and the real workers; NATS is not between them."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.report import Row, progress
from services.diagnoser.asking import Subject
from services.diagnoser.domain.book import Book
from services.diagnoser.domain.facts import Floors
from services.diagnoser.procedure import Procedure
from shared.clock import SystemClock
from tests.support.ledgers import remember
from tests.support.real_agents import RealAgents

_FOUR: Final = ("n-1", "n-2", "n-3", "n-4")


def machine_rows() -> Iterator[Row]:
    """The times that the issue names."""
    progress("diagnoses of this machine")
    four, one, valid = asyncio.run(_times())
    yield Row("four nodes offered by this machine", four, "s", "lower", 90)
    yield Row("one node", one, "s", "lower", 30)
    yield Row("four nodes whose pass holds", valid, "s", "lower", 2)


async def _times() -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory() as home:
        agents, book = RealAgents(Path(home)), Book()
        four = await _seconds(agents, book, _FOUR)
        one = await _seconds(agents, Book(), _FOUR[:1])
        return four, one, await _seconds(agents, book, _FOUR)


async def _seconds(agents: RealAgents, book: Book, nodes: tuple[str, ...]) -> float:
    """How long it takes; what it finds goes to the book."""
    clock = SystemClock()
    began = time.perf_counter()
    subject = Subject(f"dg-{began}", nodes, dict.fromkeys(nodes, "here"))
    examination = await Procedure(agents, book, Floors(), clock, lambda: 1.0).run(subject, _wanted)
    took_s = time.perf_counter() - began
    remember(book, examination, nodes, clock.now())
    return took_s


async def _wanted() -> bool:
    return True
