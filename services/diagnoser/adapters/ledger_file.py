"""The ledger in a SQLite file, so that a start does not read all that was ever found on every node.

The file is no truth: it is made of the events of NODES, and made again where it is damaged, belongs to another stream
or an earlier boot of the machine, or was written with another schema. With every batch of events it takes what that
changed, and how far it is, together or not at all. Where it cannot be written (a full disk) what has changed is kept
for the next try; the memory goes on meanwhile.

Reports are in the file alone, the last `REPORTS_KEPT` of them: with thousands of nodes they are large.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from pydantic import TypeAdapter, ValidationError

from services.diagnoser.domain.book import Book, NodePage, Remembered, Touched
from shared.events import NodeDiagnosed
from shared.rebuildable import boot_id, open_rebuildable, remove_rebuildable

REPORTS_KEPT: Final = 500
_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pages (node TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE parts (part TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE fleet (kind TEXT, figure TEXT, body TEXT NOT NULL, PRIMARY KEY (kind, figure)) WITHOUT ROWID;
CREATE TABLE diagnoses (place INTEGER PRIMARY KEY, diagnosis TEXT NOT NULL UNIQUE);
CREATE TABLE reports (
    diagnosis TEXT, node TEXT, body TEXT NOT NULL, PRIMARY KEY (diagnosis, node)
) WITHOUT ROWID;
"""
_PAGE: Final = TypeAdapter(NodePage)
_PART: Final = TypeAdapter(Remembered)
_VALUES: Final = TypeAdapter(list[float])


@dataclass(frozen=True, slots=True)
class Listed:
    """A report in a list: one of its parts, and how many there are."""

    first: NodeDiagnosed
    parts: int


class LedgerFile:
    """Keeps a book over restarts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._log = structlog.get_logger(readmodel=path.name)

    def load(self, book: Book, stream: str, last: int) -> int:
        """Open the file and put what it holds into the book; gives the sequence of NODES that this reaches."""
        existed = self._path.exists()
        try:
            self._db = open_rebuildable(self._path, _SCHEMA_VERSION)
            stored = dict(self._db.execute("SELECT key, value FROM meta"))
            sequence = int(stored["sequence"])
            same = (stored["stream"], stored["boot"]) == (stream, boot_id())
            whole = self._db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
            if same and whole and sequence <= last:
                self._restore(book)
                return sequence
        except (sqlite3.Error, KeyError, ValueError, ValidationError) as error:
            if existed:
                self._log.warning("ledger_unusable", reason=str(error))
        self._make(stream)
        return 0

    def write(self, book: Book, touched: Touched, reports: Iterable[NodeDiagnosed], sequence: int) -> None:
        """Write what has changed, and how far the file is then, or nothing; raises sqlite3.OperationalError."""
        database = self._database
        database.execute("BEGIN")
        with database:
            pages = [(node, _PAGE.dump_json(book.pages[node]).decode()) for node in touched.nodes]
            database.executemany("INSERT OR REPLACE INTO pages VALUES (?, ?)", pages)
            beliefs = {part: book.remembered(part) for part in touched.parts}
            kept = [(part, _PART.dump_json(each).decode()) for part, each in beliefs.items() if each is not None]
            database.executemany("INSERT OR REPLACE INTO parts VALUES (?, ?)", kept)
            gone = [(part,) for part, each in beliefs.items() if each is None]
            database.executemany("DELETE FROM parts WHERE part = ?", gone)
            values = [(*key, _VALUES.dump_json(list(book.fleet(*key))).decode()) for key in touched.fleet]
            database.executemany("INSERT OR REPLACE INTO fleet VALUES (?, ?, ?)", values)
            self._keep(reports)
            database.execute("UPDATE meta SET value = ? WHERE key = 'sequence'", (str(sequence),))

    def report(self, diagnosis: str) -> tuple[NodeDiagnosed, ...]:
        """The parts of a report, by node; none where it is unknown or long ago."""
        found = self._select("SELECT body FROM reports WHERE diagnosis = ? ORDER BY node", (diagnosis,))
        return tuple(NodeDiagnosed.model_validate_json(body) for (body,) in found)

    def latest(self, limit: int) -> list[Listed]:
        """The last reports, newest first."""
        order = "SELECT diagnosis FROM diagnoses ORDER BY place DESC LIMIT ?"
        names = [name for (name,) in self._select(order, (limit,))]
        one = "SELECT body, COUNT(*) FROM reports WHERE diagnosis = ?"
        found = (row for name in names for row in self._select(one, (name,)) if row[1])
        return [Listed(NodeDiagnosed.model_validate_json(body), int(parts)) for body, parts in found]

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _keep(self, reports: Iterable[NodeDiagnosed]) -> None:
        for part in reports:
            body = part.model_dump_json(by_alias=True, exclude_none=True)
            self._database.execute("INSERT OR IGNORE INTO diagnoses (diagnosis) VALUES (?)", (part.diagnosis,))
            self._database.execute("INSERT OR REPLACE INTO reports VALUES (?, ?, ?)", (part.diagnosis, part.node, body))
        old = "SELECT diagnosis FROM diagnoses ORDER BY place DESC LIMIT -1 OFFSET ?"
        for (diagnosis,) in self._select(old, (REPORTS_KEPT,)):
            self._database.execute("DELETE FROM reports WHERE diagnosis = ?", (diagnosis,))
            self._database.execute("DELETE FROM diagnoses WHERE diagnosis = ?", (diagnosis,))

    def _restore(self, book: Book) -> None:
        for node, body in self._select("SELECT node, body FROM pages"):
            book.pages[node] = _PAGE.validate_json(body)
        for part, body in self._select("SELECT part, body FROM parts"):
            book.restore_part(part, _PART.validate_json(body))
        for kind, figure, body in self._select("SELECT kind, figure, body FROM fleet"):
            book.restore_fleet(kind, figure, _VALUES.validate_json(body))

    def _make(self, stream: str) -> None:
        self.close()
        remove_rebuildable(self._path)
        self._log.info("ledger_rebuilt")
        self._db = open_rebuildable(self._path, _SCHEMA_VERSION)
        self._db.executescript(_SCHEMA)
        self._db.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        known = "INSERT INTO meta VALUES ('stream', ?), ('boot', ?), ('sequence', '0')"
        self._db.execute(known, (stream, boot_id()))

    def _select(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[str, ...]]:
        with closing(self._database.execute(query, values)) as rows:
            return list(rows)

    @property
    def _database(self) -> sqlite3.Connection:
        if self._db is None:
            raise RuntimeError("the ledger's file is not open")
        return self._db
