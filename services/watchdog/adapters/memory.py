"""What the watchdog remembers of logs, in a SQLite file: how far each is read, what was found, when a job last wrote.

Everything that a batch of chunks changes is one transaction, committed before the batch is acknowledged, so a watchdog
that was killed reads on where it was. The file is written without waiting for the disk: it survives the process, and
after a power loss the incidents on record are left. One that cannot be read is begun anew. Only live jobs are in it.
"""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import structlog

from services.watchdog.domain.found import Found, Sighting
from services.watchdog.domain.matching import Scan
from services.watchdog.domain.progress import Progress
from shared.checkpoints import furthest
from shared.events import ReplicaRef as EventReplica
from shared.jobs import replica_key
from shared.logs_wire import ReplicaRef
from shared.rebuildable import open_rebuildable

CACHED_SCANS: Final = 4096
_SCHEMA_VERSION: Final = 5
_SCHEMA: Final = """
CREATE TABLE scans (
    job TEXT NOT NULL, attempt INTEGER NOT NULL, role TEXT NOT NULL, replica INTEGER NOT NULL,
    generation INTEGER NOT NULL, position INTEGER NOT NULL, unfinished BLOB NOT NULL, line BLOB NOT NULL,
    offset INTEGER NOT NULL, tail BLOB NOT NULL, found TEXT NOT NULL, looks TEXT NOT NULL, block TEXT NOT NULL,
    epoch INTEGER NOT NULL, step INTEGER NOT NULL, progress_at_ms INTEGER NOT NULL,
    phase TEXT NOT NULL, filed_phase TEXT NOT NULL, checkpoint TEXT NOT NULL, ended INTEGER NOT NULL,
    PRIMARY KEY (job, attempt, role, replica)
) WITHOUT ROWID;
CREATE TABLE found (
    job TEXT NOT NULL, attempt INTEGER NOT NULL, role TEXT NOT NULL, replica INTEGER NOT NULL, rule TEXT NOT NULL,
    line TEXT NOT NULL, at_ms INTEGER NOT NULL, offset INTEGER NOT NULL,
    last_line TEXT NOT NULL, last_at_ms INTEGER NOT NULL, last_offset INTEGER NOT NULL,
    PRIMARY KEY (job, attempt, rule, role, replica)
) WITHOUT ROWID;
CREATE TABLE outputs (
    job TEXT NOT NULL, attempt INTEGER NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (job, attempt)
) WITHOUT ROWID;
"""
_TABLES: Final = ("scans", "found", "outputs")
_SCAN_COLUMNS: Final = (
    "generation", "position", "unfinished", "line", "offset", "tail", "found", "looks", "block",
    "epoch", "step", "progress_at_ms", "phase", "filed_phase", "checkpoint", "ended",
)  # fmt: skip
_SCAN: Final = (
    f"SELECT {', '.join(_SCAN_COLUMNS)} FROM scans WHERE job = ? AND attempt = ? AND role = ? AND replica = ?"  # noqa: S608  # own names
)
_KEEP_SCAN: Final = "INSERT OR REPLACE INTO scans VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_KEEP_FOUND: Final = (
    "INSERT INTO found VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?6, ?7, ?8) ON CONFLICT DO UPDATE SET "
    "last_line = excluded.line, last_at_ms = excluded.at_ms, last_offset = excluded.offset "
    "WHERE excluded.offset > last_offset"
)
_FOUND: Final = (
    "SELECT rule, role, replica, found.line, at_ms, found.offset, last_line, last_at_ms, last_offset, progress_at_ms "
    "FROM found LEFT JOIN scans USING (job, attempt, role, replica) WHERE job = ? AND attempt = ?"
)
_KEEP_OUTPUT: Final = (
    "INSERT INTO outputs VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET at_ms = max(at_ms, excluded.at_ms)"
)

AttemptKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Noticed:
    """A rule was found in the log of a replica, for the first time or again."""

    rule: str
    replica: EventReplica
    sighting: Sighting


@dataclass(frozen=True, slots=True)
class Changes:
    """What a batch of chunks changes."""

    scans: Mapping[ReplicaRef, Scan]
    found: tuple[tuple[AttemptKey, Noticed], ...] = ()
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
        """Every rule that was found in the logs of the attempt, with the line that counts."""
        with closing(self._db.execute(_FOUND, (job, attempt))) as rows:
            return tuple(_found(*row) for row in rows)

    def rules_found(self, job: str, attempt: int) -> tuple[str, ...]:
        """The rules that were found in the attempt, each as often as replicas printed it."""
        query = "SELECT rule FROM found WHERE job = ? AND attempt = ?"
        with closing(self._db.execute(query, (job, attempt))) as rows:
            return tuple(rule for (rule,) in rows)

    def progress(self, job: str, attempt: int) -> Progress | None:
        """How far the attempt has come, over all replicas; None where none printed it."""
        query = "SELECT epoch, step FROM scans WHERE job = ? AND attempt = ? ORDER BY epoch DESC, step DESC LIMIT 1"
        row = self._db.execute(query, (job, attempt)).fetchone()
        return Progress(*row) if row and any(row) else None

    def checkpoint(self, job: str, attempt: int) -> str | None:
        """The furthest file that the attempt was seen to have saved; None where none was."""
        query = "SELECT checkpoint FROM scans WHERE job = ? AND attempt = ? AND checkpoint != ''"
        with closing(self._db.execute(query, (job, attempt))) as rows:
            return furthest(path for (path,) in rows)

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
        found = [_found_row(key, each) for key, each in changes.found]
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
        row = self._db.execute(_SCAN, _key(replica)).fetchone()
        return _scan(row) if row else Scan()

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
    kept_back = (scan.generation, scan.position, scan.unfinished, scan.line, scan.offset, scan.tail)
    found = (json.dumps(sorted(scan.found)), json.dumps(dict(scan.looks)), json.dumps(scan.block))
    progress = (scan.progress.epoch, scan.progress.step, scan.progress_at_ms)
    said = (scan.phase, scan.filed_phase, scan.checkpoint)
    return (*_key(replica), *kept_back, *found, *progress, *said, scan.ended)


def _scan(row: Sequence[Any]) -> Scan:
    kept = dict(zip(_SCAN_COLUMNS, row, strict=True))
    lines = json.loads(kept.pop("block"))
    return Scan(
        found=frozenset(json.loads(kept.pop("found"))),
        looks=json.loads(kept.pop("looks")),
        block=None if lines is None else tuple(lines),
        progress=Progress(kept.pop("epoch"), kept.pop("step")),
        ended=bool(kept.pop("ended")),
        **kept,
    )


def _found_row(key: AttemptKey, noticed: Noticed) -> tuple[object, ...]:
    replica, seen = noticed.replica, noticed.sighting
    return (*key, replica.role, replica.index, noticed.rule, seen.line, seen.at_ms, seen.offset)


def _found(
    rule: str, role: str, index: int, line: str, at_ms: int, offset: int, last: str, last_ms: int, last_offset: int,
    progress_at_ms: int | None,
) -> Found:  # fmt: skip
    first, latest = Sighting(line, at_ms, offset), Sighting(last, last_ms, last_offset)
    return Found.of(rule, EventReplica(role=role, index=index), first, latest, progress_at_ms)
