"""The ledger of node health on the stream `NODES`: follows it into the book, and puts on record what diagnoses found.

The book is in memory, and in a file that a start goes on from; the stream keeps the last events of each node for ever.
`caught_up` is set once the past is read: a diagnosis before that would know nothing. `news` is set when an admin wants
a node back, and when a job speaks against one.
"""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Final

import structlog

from services.diagnoser.adapters.ledger_file import LedgerFile, Listed
from services.diagnoser.domain.book import Book, Touched
from services.diagnoser.domain.health import judgement
from shared.bus import Bus, CaughtUp
from shared.bus.streams import NODES
from shared.catalog import Cluster
from shared.clock import Clock
from shared.events import Event, NodeDiagnosed, NodeFinding, NodeJudged, NodeLagged, NodeRecalled, NodeSuspected
from shared.jobs import Recorded

# A node that was taken out returns when it is rather good than bad.
RATHER_BAD: Final = 0.5


class HealthLedger:
    """Remembers nodes across jobs."""

    def __init__(self, bus: Bus, clock: Clock, file: LedgerFile) -> None:
        self._bus = bus
        self._clock = clock
        self._file = file
        self._reports: list[NodeDiagnosed] = []
        self._log = structlog.get_logger(service="diagnoser")
        self._sequence = 0
        self._moved = asyncio.Condition()
        self.book = Book()
        self.caught_up = asyncio.Event()
        self.news = asyncio.Event()

    async def run(self) -> None:
        """Follow the stream for ever."""
        stream, last = await self._bus.stream_identity(NODES)
        self._sequence = self._file.load(self.book, stream, last)
        try:
            await self._follow()
        finally:
            self._file.close()

    async def _follow(self) -> None:
        async for batch in self._bus.follow_batches(after=self._sequence, stream=NODES, subjects=("tm.node.>",)):
            for item in batch:
                if isinstance(item, Recorded):
                    self._take(item)
                self._sequence = item.sequence
                if isinstance(item, CaughtUp):
                    self.caught_up.set()
            self._write()
            async with self._moved:
                self._moved.notify_all()

    def _take(self, recorded: Recorded) -> None:
        self.book.take(recorded)
        if isinstance(recorded.event.data, NodeDiagnosed):
            self._reports.append(recorded.event.data)
        if isinstance(recorded.event.data, NodeRecalled | NodeSuspected | NodeLagged):
            self.news.set()

    def _write(self) -> None:
        """Bring the file up to the book; what cannot be written now is written with what comes next."""
        try:
            self._file.write(self.book, self.book.touched, self._reports, self._sequence)
        except sqlite3.OperationalError as error:
            self._log.error("ledger_not_written", sequence=self._sequence, reason=str(error))
        else:
            self.book.touched = Touched()
            self._reports.clear()

    def report(self, diagnosis: str) -> tuple[NodeDiagnosed, ...]:
        """The parts of a report, by node; none where it is unknown or long ago."""
        return self._file.report(diagnosis)

    def latest(self, limit: int) -> list[Listed]:
        """The last reports, newest first."""
        return self._file.latest(limit)

    async def take(self, finding: NodeFinding, part: NodeDiagnosed) -> None:
        """Put on record what was found on a node, and whether that makes it suspect, bad or good again.

        Where faults were pretended only the report is kept. Raises BusUnavailableError.
        """
        subject = f"tm.node.{Cluster.id_of(part.cluster)}.{part.node}"
        page = self.book.pages.get(part.node)
        last = page.judged if page else None
        cleared = part.fresh and not any(
            each.part == part.node and each.suspicion >= RATHER_BAD for each in part.beliefs
        )
        judged = judgement(finding, last, part.job or part.diagnosis, part.cluster, tested=cleared)
        payloads: list[NodeDiagnosed | NodeJudged] = [part]
        if judged is not None and not part.injected:
            payloads.append(judged)
        for payload in payloads:
            event = Event.of(
                payload,
                job=part.node,
                attempt=0,
                time=self._clock.now(),
                owner="",
                project="",
                part=f"{part.diagnosis}/{getattr(payload, 'health', '')}".rstrip("/"),
            )
            await self.reached(await self._bus.observe(event, subject=f"{subject}.{payload.SUFFIX}"))

    async def doubt(self, lagged: NodeLagged) -> None:
        """Put on record that a rank on a node held others up; once for an attempt. Raises BusUnavailableError."""
        event = Event.of(
            lagged,
            job=lagged.node,
            attempt=0,
            time=self._clock.now(),
            owner="",
            project="",
            part=f"{lagged.job}-{lagged.attempt}",
        )
        subject = f"tm.node.{Cluster.id_of(lagged.cluster)}.{lagged.node}.{lagged.SUFFIX}"
        await self.reached(await self._bus.observe(event, subject=subject))

    async def tell_suspicions(self) -> None:
        """Put on record which nodes are suspect by what jobs did on them. Raises BusUnavailableError.

        All instances do, and say the same of the same sign, so it is there once.
        """
        for judged in list(self.book.newly_suspected(self._clock.now())):
            sign = self.book.pages[judged.node].suspected_by
            part = f"{sign.job}-{sign.attempt}/{judged.health}" if sign else judged.health
            event = Event.of(
                judged, job=judged.node, attempt=0, time=self._clock.now(), owner="", project="", part=part
            )
            subject = f"tm.node.{Cluster.id_of(judged.cluster)}.{judged.node}.{judged.SUFFIX}"
            await self.reached(await self._bus.observe(event, subject=subject))

    async def reached(self, sequence: int) -> None:
        """Return once the event with this sequence is in the book."""
        async with self._moved:
            await self._moved.wait_for(lambda: self._sequence >= sequence)
