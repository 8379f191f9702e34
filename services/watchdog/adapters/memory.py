"""What the watchdog remembers of logs, in a SQLite file: how far each is read, what was found, when a job last wrote.

Everything that a batch of chunks changes is one transaction, committed before the batch is acknowledged, so a watchdog
that was killed reads on where it was. The file is written without waiting for the disk: it survives the process, and
after a power loss the incidents on record are left. One that cannot be read is begun anew. Only live jobs are in it.
"""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from services.watchdog.domain.matching import Scan
from services.watchdog.domain.policy import Found
from shared.events import ReplicaRef as EventReplica
from shared.jobs import replica_key
from shared.logs_wire import ReplicaRef
from shared.rebuildable import open_rebuildable

CACHED_SCANS: Final = 4096
_SCHEMA_VERSION: Final = 2
_SCHEMA: Final = """
CREATE TABLE scans (
    job TEXT NOT NULL, attempt INTEGER NOT NULL, role TEXT NOT NULL, replica INTEGER NOT NULL,
    generation INTEGER NOT NULL, position INTEGER NOT NULL, unfinished BLOB NOT NULL, line BLOB NOT NULL,
    context TEXT NOT NULL, found TEXT NOT NULL, ended INTEGER NOT NULL, phase TEXT NOT NULL,
    PRIMARY KEY (job, attempt, role, replica)
) WITHOUT ROWID;
CREATE TABLE found (
    job TEXT NOT NULL, attempt INTEGER NOT NULL, role TEXT NOT NULL, replica INTEGER NOT NULL,
    rule TEXT NOT NULL, line TEXT NOT NULL, PRIMARY KEY (job, attempt, rule, role, replica)
) WITHOUT ROWID;
CREATE TABLE outputs (
    job TEXT NOT NULL, attempt INTEGER NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (job, attempt)
) WITHOUT ROWID;
"""
_TABLES: Final = ("scans", "found", "outputs")
_KEEP_SCAN: Final = "INSERT OR REPLACE INTO scans VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_KEEP_FOUND: Final = "INSERT OR IGNORE INTO found VALUES (?, ?, ?, ?, ?, ?)"
_KEEP_OUTPUT: Final = (
    "INSERT INTO outputs VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET at_ms = max(at_ms, excluded.at_ms)"
)

AttemptKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Changes:
    """What a batch of chunks changes."""

    scans: Mapping[ReplicaRef, Scan]
    found: tuple[tuple[AttemptKey, Found], ...] = ()
    outputs: Mapping[AttemptKey, datetime] | None = None


class Memory:
    """The file, and the scans that were used last."""

    def __init__(self, path: Path) -> None:
        self._log = structlog.get_logger(service="watchdog")
        self._db = self._opened(path)
        self._scans: OrderedDict[ReplicaRef, Scan] = OrderedDict()

    def scan(self, replica: ReplicaRef) -> Scan:
        """How far the log of the replica is read."""
        scan = self._scans.pop(replica, None) or self._stored_scan(replica)
        self._remember(replica, scan)
        return scan

    def found(self, job: str, attempt: int) -> tuple[Found, ...]:
        """Every line that was found in the logs of the attempt."""
        query = "SELECT rule, role, replica, line FROM found WHERE job = ? AND attempt = ?"
        with closing(self._db.execute(query, (job, attempt))) as rows:
            return tuple(Found(rule, EventReplica(role=role, index=index), line) for rule, role, index, line in rows)

    def last_output(self, job: str, attempt: int) -> datetime | None:
        """When the last byte of any replica of the attempt came."""
        row = self._db.execute("SELECT at_ms FROM outputs WHERE job = ? AND attempt = ?", (job, attempt)).fetchone()
        return datetime.fromtimestamp(row[0] / 1000, UTC) if row else None

    def phases(self, job: str, attempt: int) -> dict[str, str]:
        """The phase that each replica of the attempt declared last, as far as any did."""
        query = "SELECT role, replica, phase FROM scans WHERE job = ? AND attempt = ? AND phase != ''"
        with closing(self._db.execute(query, (job, attempt))) as rows:
            return {replica_key(role, index): phase for role, index, phase in rows}

    def commit(self, changes: Changes) -> None:
        """Keep all of it or nothing."""
        found = [(*key, each.replica.role, each.replica.index, each.rule, each.line) for key, each in changes.found]
        outputs = [(*key, int(at.timestamp() * 1000)) for key, at in (changes.outputs or {}).items()]
        with self._db:
            self._db.execute("BEGIN")
            self._db.executemany(_KEEP_SCAN, (_row(replica, scan) for replica, scan in changes.scans.items()))
            self._db.executemany(_KEEP_FOUND, found)
            self._db.executemany(_KEEP_OUTPUT, outputs)
        for replica, scan in changes.scans.items():
            self._scans.pop(replica, None)
            self._remember(replica, scan)

    def forget(self, job: str) -> None:
        """The job has ended."""
        for table in _TABLES:
            self._db.execute(f"DELETE FROM {table} WHERE job = ?", (job,))  # noqa: S608  # own names
        for replica in [each for each in self._scans if each.job == job]:
            del self._scans[replica]

    def keep_only(self, jobs: Iterable[str]) -> None:
        """Forget all jobs but these."""
        live = set(jobs)
        known = {job for table in _TABLES for (job,) in self._db.execute(f"SELECT DISTINCT job FROM {table}")}  # noqa: S608  # own names
        for job in known - live:
            self.forget(job)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _remember(self, replica: ReplicaRef, scan: Scan) -> None:
        self._scans[replica] = scan
        while len(self._scans) > CACHED_SCANS:
            self._scans.popitem(last=False)

    def _stored_scan(self, replica: ReplicaRef) -> Scan:
        query = (
            "SELECT generation, position, unfinished, line, context, found, ended, phase FROM scans "
            "WHERE job = ? AND attempt = ? AND role = ? AND replica = ?"
        )
        row = self._db.execute(query, _key(replica)).fetchone()
        return _scan(*row) if row else Scan()

    def _opened(self, path: Path) -> sqlite3.Connection:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _connect(path)
        except sqlite3.Error as error:
            self._log.warning("memory_begun_anew", reason=str(error))
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    database = open_rebuildable(path, _SCHEMA_VERSION)
    try:
        if database.execute("PRAGMA user_version").fetchone()[0] == 0:
            database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;")
        database.execute("SELECT 1 FROM scans, found, outputs LIMIT 1")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _key(replica: ReplicaRef) -> tuple[str, int, str, int]:
    return replica.job, replica.attempt, replica.role, replica.index


def _row(replica: ReplicaRef, scan: Scan) -> tuple[object, ...]:
    context = json.dumps([line.decode("latin-1") for line in scan.context])
    found = json.dumps(sorted(scan.found))
    kept_back = (scan.generation, scan.position, scan.unfinished, scan.line)
    return (*_key(replica), *kept_back, context, found, scan.ended, scan.phase)


def _scan(
    generation: int, position: int, unfinished: bytes, line: bytes, context: str, found: str, ended: int, phase: str
) -> Scan:
    lines = tuple(each.encode("latin-1") for each in json.loads(context))
    return Scan(generation, position, unfinished, line, lines, frozenset(json.loads(found)), bool(ended), phase)
