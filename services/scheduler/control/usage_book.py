"""The usage book: every event of USAGE in a SQLite file, as any billing subscriber would keep it.

`UsageBook.run` follows the stream from the sequence that the file has reached. The meter asks it what is on record, the
HTTP API sums over it. It is no truth: a file that is damaged or belongs to another stream is made anew. An event and
the sequence that comes with it are written in one transaction, so the file never knows less than it says.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import structlog

from services.scheduler.domain.billing import Booked
from services.scheduler.domain.metering import Used
from shared.bus import Bus, CaughtUp
from shared.bus.streams import USAGE
from shared.clock import rfc3339
from shared.events import Event, Usage, UsageCorrected, decode, encode
from shared.jobs import Recorded
from shared.rebuildable import open_rebuildable

SUBJECTS: Final = ("tm.usage.*",)
_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE usage (
    id TEXT PRIMARY KEY, record TEXT NOT NULL, job TEXT NOT NULL, job_name TEXT NOT NULL, owner TEXT NOT NULL,
    owner_name TEXT NOT NULL, project TEXT NOT NULL, attempt INTEGER NOT NULL, role TEXT NOT NULL, phase TEXT NOT NULL,
    instance_type TEXT NOT NULL, pool_name TEXT NOT NULL, price_micros INTEGER, billable INTEGER NOT NULL,
    window_start TEXT NOT NULL, replica_ms INTEGER NOT NULL, amount_micros INTEGER NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX usage_of_job ON usage (job, attempt);
CREATE INDEX usage_by_time ON usage (window_start DESC, id DESC);
"""
_INSERT: Final = "INSERT OR IGNORE INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class UsageBook:
    """Follows USAGE; one a scheduler."""

    def __init__(self, path: Path, bus: Bus) -> None:
        self._path = path
        self._bus = bus
        self._db: sqlite3.Connection | None = None
        self._moved = asyncio.Condition()
        self._log = structlog.get_logger(service="scheduler", readmodel=path.name)
        self.sequence = 0
        self.caught_up = asyncio.Event()

    async def run(self) -> None:
        """Follow for ever."""
        await self._open()
        async for item in self._bus.follow(after=self.sequence, stream=USAGE, subjects=SUBJECTS):
            if isinstance(item, CaughtUp):
                self.sequence = max(self.sequence, item.sequence)
                self.caught_up.set()
            else:
                self._take(item)
            async with self._moved:
                self._moved.notify_all()

    async def reached(self, sequence: int) -> None:
        """Return once the event with this sequence is in the book."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.sequence >= sequence)

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    @property
    def database(self) -> sqlite3.Connection:
        """The file, to read from."""
        if self._db is None:
            raise RuntimeError("the usage book is not open")
        return self._db

    def booked(self, job: str, attempt: int) -> dict[str, Booked]:
        """What is on record about an attempt, by the ids of its records."""
        books: dict[str, Booked] = {}
        for event in self._events("WHERE job = ? AND attempt = ? ORDER BY length(id), id", (job, attempt)):
            payload = event.data
            if not isinstance(payload, Usage):
                continue
            used = Used(payload.replica_ms, payload.amount_micros)
            before = books.get(_record_of(event))
            books[_record_of(event)] = (
                Booked(before.record, before.net + used, before.corrections + 1) if before else Booked(payload, used)
            )
        return books

    def _events(self, where: str, values: tuple[object, ...]) -> Iterator[Event]:
        query = f"SELECT body FROM usage {where}"  # noqa: S608  # own text
        with closing(self.database.execute(query, values)) as rows:
            for (body,) in rows:
                yield decode(body.encode())

    async def _open(self) -> None:
        identity, last = await self._bus.stream_identity(USAGE)
        try:
            self._db = open_rebuildable(self._path, _SCHEMA_VERSION)
            stored = dict(self._db.execute("SELECT key, value FROM meta"))
            self.sequence = int(stored["sequence"])
            usable = stored["stream"] == identity and self.sequence <= last
        except (sqlite3.Error, KeyError, ValueError) as error:
            self._log.info("usage_book_unusable", reason=str(error))
            usable = False
        if not usable:
            self._rebuild(identity)

    def _rebuild(self, identity: str) -> None:
        self.close()
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        self._db = open_rebuildable(self._path, _SCHEMA_VERSION)
        self._db.executescript(_SCHEMA)
        self._db.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        self._db.execute("INSERT INTO meta VALUES ('stream', ?), ('sequence', '0')", (identity,))
        self.sequence = 0
        self._log.info("usage_book_rebuilt")

    def _take(self, recorded: Recorded) -> None:
        database = self.database
        with database:
            database.execute("BEGIN")
            if isinstance(recorded.event.data, Usage):
                self._insert(recorded.event, recorded.event.data)
            database.execute("UPDATE meta SET value = ? WHERE key = 'sequence'", (str(recorded.sequence),))
        self.sequence = recorded.sequence

    def _insert(self, event: Event, payload: Usage) -> None:
        row = (
            *(event.id, _record_of(event), event.subject, payload.job_name, event.owner or "", payload.owner_name),
            *(event.project or "", event.attempt or 0, payload.role, payload.phase, payload.instance_type),
            *(payload.pool_name, payload.price_micros_per_hour, payload.billable, rfc3339(payload.window_start)),
            *(payload.replica_ms, payload.amount_micros, encode(event).decode()),
        )
        if not self.database.execute(_INSERT, row).rowcount:
            self._log.error("usage_repeated", id=event.id)


def _record_of(event: Event) -> str:
    return event.data.corrects[0] if isinstance(event.data, UsageCorrected) else event.id
