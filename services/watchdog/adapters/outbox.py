"""Notices that are to be delivered, in a SQLite file that survives a kill and a loss of power.

A notice is put in together with the position in the stream that it came from, so that each event makes its notices
once, and it stays until it is delivered or given up. What is done is kept for a week: the same matter is told once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal

import structlog

from services.watchdog.domain.notices import Notice
from shared.rebuildable import open_rebuildable

State = Literal["waiting", "delivered", "given-up"]

KEPT: Final = timedelta(days=7)
_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY, notification TEXT NOT NULL, once TEXT NOT NULL, notice TEXT NOT NULL,
    made_ms INTEGER NOT NULL, tries INTEGER NOT NULL, due_ms INTEGER NOT NULL, state TEXT NOT NULL,
    error TEXT NOT NULL, UNIQUE (notification, once)
);
CREATE INDEX deliveries_due ON deliveries (due_ms) WHERE state = 'waiting';
"""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notice for one notification (by name), and how often it was tried."""

    number: int
    notification: str
    notice: Notice
    made_at: datetime
    tries: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How the deliveries of a notification stand."""

    waiting: int = 0
    delivered: int = 0
    given_up: int = 0
    last_error: str = ""


class Outbox:
    """The file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = structlog.get_logger(service="watchdog")
        self._db: sqlite3.Connection | None = None
        self.sequence = 0

    def open(self, stream: str, last: int) -> None:
        """Open the file; one that is missing, damaged or of another stream begins with what comes from now on."""
        was_there = self._path.exists()
        try:
            self._db = open_rebuildable(self._path, _SCHEMA_VERSION)
            self._db.execute("PRAGMA synchronous = FULL")
            meta = dict(self._db.execute("SELECT key, value FROM meta"))
            self.sequence = int(meta["sequence"])
            if meta["stream"] == stream and self.sequence <= last:
                return
        except (sqlite3.Error, KeyError, ValueError) as error:
            if was_there:
                self._log.error("outbox_begun_anew", reason=str(error))
        self._begin(stream, last)

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def put(self, sequence: int, notice: Notice | None, notifications: Iterable[str], now: datetime) -> int:
        """Take in what an event is to tell to these, and that the stream is read so far; gives how many are new."""
        body = notice.model_dump_json(by_alias=True) if notice else ""
        once, now_ms = notice.once if notice else "", _millis(now)
        rows = [(name, once, body, now_ms, now_ms) for name in notifications]
        with self._database as database:
            database.execute("BEGIN")
            before = database.total_changes
            database.executemany(
                "INSERT OR IGNORE INTO deliveries "
                "(notification, once, notice, made_ms, tries, due_ms, state, error) "
                "VALUES (?, ?, ?, ?, 0, ?, 'waiting', '')",
                rows,
            )
            added = database.total_changes - before
            database.execute("UPDATE meta SET value = ? WHERE key = 'sequence'", (str(sequence),))
        self.sequence = sequence
        return added

    def due(
        self, now: datetime, limit: int, *, without: Collection[int] = (), not_of: Collection[str] = ()
    ) -> list[Delivery]:
        """Deliveries whose time has come, the longest due first; without these, and without those of notifications."""
        query = (
            "SELECT number, notification, notice, made_ms, tries FROM deliveries "
            "WHERE state = 'waiting' AND due_ms <= ? AND number NOT IN (SELECT value FROM json_each(?)) "
            "AND notification NOT IN (SELECT value FROM json_each(?)) ORDER BY due_ms, number LIMIT ?"
        )
        values = (_millis(now), json.dumps(list(without)), json.dumps(list(not_of)), limit)
        with closing(self._database.execute(query, values)) as rows:
            return [
                Delivery(number, name, Notice.model_validate_json(notice), _time(made_ms), tries)
                for number, name, notice, made_ms, tries in rows
            ]

    def tried(self, delivery: Delivery, state: State, due_at: datetime, error: str = "") -> None:
        """Put down how a try went; a delivery that still waits is due again then."""
        self._database.execute(
            "UPDATE deliveries SET tries = tries + 1, state = ?, due_ms = ?, error = ? WHERE number = ?",
            (state, _millis(due_at), error, delivery.number),
        )

    def forget(self, notification: str) -> None:
        """The notification was deleted."""
        self._database.execute("DELETE FROM deliveries WHERE notification = ?", (notification,))

    def forget_old(self, now: datetime) -> None:
        """Forget what was done long ago."""
        self._database.execute(
            "DELETE FROM deliveries WHERE state != 'waiting' AND made_ms < ?", (_millis(now - KEPT),)
        )

    def standing(self, notification: str) -> Standing:
        """How the deliveries of the last week stand."""
        counts = dict(
            self._database.execute(
                "SELECT state, count(*) FROM deliveries WHERE notification = ? GROUP BY state", (notification,)
            )
        )
        last = self._database.execute(
            "SELECT error FROM deliveries WHERE notification = ? AND error != '' ORDER BY number DESC LIMIT 1",
            (notification,),
        ).fetchone()
        return Standing(
            counts.get("waiting", 0), counts.get("delivered", 0), counts.get("given-up", 0), last[0] if last else ""
        )

    def _begin(self, stream: str, last: int) -> None:
        self.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        self._db = open_rebuildable(self._path, _SCHEMA_VERSION)
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;")
        self._db.execute("INSERT INTO meta VALUES ('stream', ?), ('sequence', ?)", (stream, str(last)))
        self.sequence = last

    @property
    def _database(self) -> sqlite3.Connection:
        if self._db is None:
            raise RuntimeError("the outbox is not open")
        return self._db


def _millis(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
