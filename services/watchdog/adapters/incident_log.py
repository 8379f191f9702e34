"""All incidents that were ever put on record, of jobs and of the platform, in a SQLite file that lists are made from.

The file follows the stream and holds how far it is, so that it can be deleted and is built again. One incident, the
places that it concerns, and the position are one transaction. Incidents of deleted jobs go with them. Those of jobs
that ended long ago are in ARCHIVE alone, in which the file has a position of its own.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from services.watchdog.domain.outages import WINDOW_S, Place, Sighting
from shared.events import Deleted, Event, IncidentRaised, OutageSuspected
from shared.jobs import Recorded
from shared.rebuildable import open_rebuildable

_SCHEMA_VERSION: Final = 2
_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE incidents (
    sequence INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, job TEXT NOT NULL, attempt INTEGER NOT NULL,
    owner TEXT NOT NULL, project TEXT NOT NULL, rule TEXT NOT NULL, class TEXT NOT NULL, mode TEXT NOT NULL,
    at_ms INTEGER NOT NULL,    body TEXT NOT NULL
);
CREATE INDEX incidents_of_job ON incidents (job);
CREATE INDEX incidents_of_owner ON incidents (owner, sequence);
CREATE INDEX incidents_of_project ON incidents (project, sequence);
CREATE INDEX incidents_of_rule ON incidents (rule, at_ms);
CREATE TABLE places (
    rule TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, at_ms INTEGER NOT NULL, sequence INTEGER NOT NULL,
    job TEXT NOT NULL, PRIMARY KEY (rule, kind, name, sequence)
) WITHOUT ROWID;
CREATE INDEX places_of_job ON places (job);
CREATE TABLE outages (
    sequence INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, rule TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
    at_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL, jobs TEXT NOT NULL, body TEXT NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class IncidentQuery:
    """Which incidents to list: all given filters must hold; newest first, behind the record `before`."""

    visible_to: str | None = None
    visible_projects: tuple[str, ...] = ()
    job: str | None = None
    owner: str | None = None
    project: str | None = None
    rule: str | None = None
    failure_class: str | None = None
    with_shadow: bool = False
    since: datetime | None = None
    until: datetime | None = None
    before: int | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class KeptIncident:
    """An incident with what it is about."""

    sequence: int
    job: str
    attempt: int
    owner: str
    project: str
    at: datetime
    incident: IncidentRaised


@dataclass(frozen=True, slots=True)
class RuleCount:
    """How often a rule was found, in how many jobs, and when last."""

    incidents: int
    jobs: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class KeptOutage:
    """A platform incident, with all jobs that it has hit so far."""

    sequence: int
    jobs: tuple[str, ...]
    last_at: datetime
    outage: OutageSuspected


class IncidentLog:
    """The file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = structlog.get_logger(service="watchdog")
        self._db: sqlite3.Connection | None = None
        self.sequence = 0
        self.archived = 0

    def open(self, stream: str, last: int, last_archived: int) -> None:
        """Open the file, or begin it anew where it is damaged or of another stream than this."""
        was_there = self._path.exists()
        try:
            self._db = open_rebuildable(self._path, _SCHEMA_VERSION)
            meta = dict(self._db.execute("SELECT key, value FROM meta"))
            self.sequence, self.archived = int(meta["sequence"]), int(meta["archived"])
            if meta["stream"] == stream and self.sequence <= last and self.archived <= last_archived:
                return
        except (sqlite3.Error, KeyError, ValueError) as error:
            if was_there:
                self._log.warning("incident_log_begun_anew", reason=str(error))
        self._begin(stream)

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def put(self, recorded: Recorded, incident: IncidentRaised, places: Iterable[Place]) -> None:
        """Keep an incident of a job with the places that count."""
        with self._transaction(recorded.sequence) as database:
            if self._insert(database, recorded, incident):
                at_ms = _millis(_time_of(recorded.event, incident))
                self._put_places(database, recorded, incident.rule, at_ms, places)
        self.sequence = recorded.sequence

    def put_archived(self, sequence: int, events: Iterable[Recorded]) -> None:
        """Keep what the log lacks of a bundle of archived events; `sequence` is the bundle's."""
        with self._transaction(sequence, "archived") as database:
            for recorded in events:
                if isinstance(recorded.event.data, IncidentRaised):
                    self._insert(database, recorded, recorded.event.data)
                elif isinstance(recorded.event.data, Deleted):
                    self._remove(database, recorded.event.subject)
        self.archived = sequence

    def put_outage(self, recorded: Recorded, outage: OutageSuspected) -> None:
        """Keep a platform incident, with those jobs that were hit while it was on its way here."""
        body, at_ms = outage.model_dump_json(by_alias=True, exclude_none=True), _millis(outage.at)
        place = Place(outage.place_kind, outage.place)
        seen = sorted(self.sightings(outage.rule, place, outage.since), key=lambda each: each.sequence)
        jobs = list(dict.fromkeys([*outage.jobs, *(each.job for each in seen)]))
        last_ms = max([at_ms, *(_millis(each.at) for each in seen)])
        key = (recorded.sequence, recorded.event.id, outage.rule, place.kind, place.name)
        with self._transaction(recorded.sequence) as database:
            database.execute(
                "INSERT OR IGNORE INTO outages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*key, at_ms, last_ms, json.dumps(jobs), body),
            )
        self.sequence = recorded.sequence

    def forget(self, recorded: Recorded) -> None:
        """The job was deleted."""
        with self._transaction(recorded.sequence) as database:
            self._remove(database, recorded.event.subject)
        self.sequence = recorded.sequence

    def sightings(self, rule: str, place: Place, since: datetime) -> list[Sighting]:
        """Where the rule was seen at the place since then."""
        query = "SELECT sequence, job, at_ms FROM places WHERE rule = ? AND kind = ? AND name = ? AND at_ms >= ?"
        rows = self._database.execute(query, (rule, place.kind, place.name, _millis(since)))
        return [Sighting(sequence, job, _time(at_ms)) for sequence, job, at_ms in rows]

    def has_open_outage(self, rule: str, place: Place, now: datetime) -> bool:
        """Whether further jobs at the place belong to an outage that is known."""
        since_ms = _millis(now - timedelta(seconds=WINDOW_S))
        query = "SELECT 1 FROM outages WHERE rule = ? AND kind = ? AND name = ? AND last_ms >= ?"
        return self._database.execute(query, (rule, place.kind, place.name, since_ms)).fetchone() is not None

    def incidents(self, query: IncidentQuery) -> list[KeptIncident]:
        """Up to one more than the limit, newest first."""
        where, values = _where(query)
        columns = "sequence, job, attempt, owner, project, at_ms, body"
        statement = f"SELECT {columns} FROM incidents WHERE {where} ORDER BY sequence DESC LIMIT ?"  # noqa: S608  # own text
        with closing(self._database.execute(statement, (*values, query.limit + 1))) as rows:
            return [_kept(*row) for row in rows]

    def counts(self) -> dict[str, RuleCount]:
        """How often each rule was found, by rule."""
        query = "SELECT rule, count(*), count(DISTINCT job), max(at_ms) FROM incidents GROUP BY rule"
        return {
            rule: RuleCount(incidents, jobs, _time(last_ms))
            for rule, incidents, jobs, last_ms in self._database.execute(query)
        }

    def outages(self, before: int | None, limit: int) -> list[KeptOutage]:
        """Up to one more than the limit, newest first."""
        query = "SELECT sequence, jobs, last_ms, body FROM outages WHERE sequence < ? ORDER BY sequence DESC LIMIT ?"
        with closing(self._database.execute(query, (before or 1 << 62, limit + 1))) as rows:
            return [
                KeptOutage(sequence, tuple(json.loads(jobs)), _time(last_ms), OutageSuspected.model_validate_json(body))
                for sequence, jobs, last_ms, body in rows
            ]

    @staticmethod
    def _insert(database: sqlite3.Connection, recorded: Recorded, incident: IncidentRaised) -> bool:
        event, at_ms = recorded.event, _millis(_time_of(recorded.event, incident))
        row = (recorded.sequence, event.id, event.subject, event.attempt or 0, event.owner or "", event.project or "")
        body = incident.model_dump_json(by_alias=True, exclude_none=True)
        kept = database.execute(
            "INSERT OR IGNORE INTO incidents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, incident.rule, _class_of(incident), incident.mode, at_ms, body),
        )
        return bool(kept.rowcount)

    @staticmethod
    def _remove(database: sqlite3.Connection, job: str) -> None:
        database.execute("DELETE FROM incidents WHERE job = ?", (job,))
        database.execute("DELETE FROM places WHERE job = ?", (job,))

    def _put_places(
        self, database: sqlite3.Connection, recorded: Recorded, rule: str, at_ms: int, places: Iterable[Place]
    ) -> None:
        job = recorded.event.subject
        for place in places:
            database.execute(
                "INSERT OR IGNORE INTO places VALUES (?, ?, ?, ?, ?, ?)",
                (rule, place.kind, place.name, at_ms, recorded.sequence, job),
            )
            for sequence, jobs in self._open(database, rule, place, at_ms):
                extended = json.dumps(list(dict.fromkeys([*json.loads(jobs), job])))
                database.execute(
                    "UPDATE outages SET last_ms = max(last_ms, ?), jobs = ? WHERE sequence = ?",
                    (at_ms, extended, sequence),
                )

    @staticmethod
    def _open(database: sqlite3.Connection, rule: str, place: Place, at_ms: int) -> list[tuple[int, str]]:
        query = "SELECT sequence, jobs FROM outages WHERE rule = ? AND kind = ? AND name = ? AND last_ms >= ?"
        return database.execute(query, (rule, place.kind, place.name, at_ms - int(WINDOW_S * 1000))).fetchall()

    def _begin(self, stream: str) -> None:
        self.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        self._db = open_rebuildable(self._path, _SCHEMA_VERSION)
        self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;")
        self._db.execute("INSERT INTO meta VALUES ('stream', ?), ('sequence', '0'), ('archived', '0')", (stream,))
        self.sequence = self.archived = 0

    @contextmanager
    def _transaction(self, sequence: int, position: str = "sequence") -> Iterator[sqlite3.Connection]:
        """An event, or a bundle, and the position behind it, or neither."""
        database = self._database
        database.execute("BEGIN")
        with database:
            yield database
            database.execute("UPDATE meta SET value = ? WHERE key = ?", (str(sequence), position))

    @property
    def _database(self) -> sqlite3.Connection:
        if self._db is None:
            raise RuntimeError("the incident log is not open")
        return self._db


def _kept(sequence: int, job: str, attempt: int, owner: str, project: str, at_ms: int, body: str) -> KeptIncident:
    return KeptIncident(sequence, job, attempt, owner, project, _time(at_ms), IncidentRaised.model_validate_json(body))


def _where(query: IncidentQuery) -> tuple[str, tuple[object, ...]]:
    clauses, values = zip(*_clauses(query), strict=True)
    return " AND ".join(clauses), tuple(value for each in values for value in each)


def _clauses(query: IncidentQuery) -> Iterator[tuple[str, Sequence[object]]]:
    yield "sequence < ?", (query.before or 1 << 62,)
    if query.visible_to is not None:
        projects = ", ".join("?" * len(query.visible_projects))
        yield f"(owner = ? OR project IN ({projects}))", (query.visible_to, *query.visible_projects)
    for column, value in (("job", query.job), ("owner", query.owner), ("project", query.project)):
        if value is not None:
            yield f"{column} = ?", (value,)
    for column, value in (("rule", query.rule), ("class", query.failure_class)):
        if value is not None:
            yield f"{column} = ?", (value,)
    if not query.with_shadow:
        yield "mode = 'active'", ()
    if query.since is not None:
        yield "at_ms >= ?", (_millis(query.since),)
    if query.until is not None:
        yield "at_ms < ?", (_millis(query.until),)


def _time_of(event: Event, incident: IncidentRaised) -> datetime:
    return incident.at or event.time


def _class_of(incident: IncidentRaised) -> str:
    return incident.failure_class or ""


def _millis(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
