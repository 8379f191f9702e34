"""The read model of jobs: every job folded, in memory while it lives and in a SQLite file for lists and restarts.

`JobReadModel.run` follows JOBS from the sequence that the file has reached, folds each event and writes the job back.
The file is no truth: it is written without waiting for the disk. One that is damaged, that belongs to another stream
(the stream's creation time is stored in it), or that was written before the machine was started (a loss of power may
have cut it anywhere), is deleted and built again from the events. Events that have come together, and how far the file
is then, are written together or not at all, each job once; while the disk is full the same events are tried again, and
only then the memory and the listeners learn of them. At a start only live jobs are read, which have an index.

Jobs that ended long ago are in ARCHIVE and no more in JOBS. Their bundles are folded as any events are, which changes
nothing of what is known already: first those that were there before, then JOBS, and then whatever is archived from now
on; for a job may have moved from the one to the other while it was read. Only then everything has caught up.

Whoever appends and then reads its own write calls `reached(sequence)`. `on_event` listeners are called after each
event, with the job before and after it, in stream order; `caught_up` is set once all past events are folded.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import structlog

from shared.bus import Bundle, Bus, CaughtUp
from shared.bus.streams import ARCHIVE
from shared.jobs import ENDED, IllegalTransitionError, Job, JobState, Recorded, fold
from shared.rebuildable import boot_id, open_rebuildable, remove_rebuildable
from shared.tasks import run_together

_SCHEMA_VERSION: Final = 3
_RETRY_S: Final = 1.0
_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, project TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL,
    submitted_at TEXT NOT NULL, live INTEGER NOT NULL, deleted INTEGER NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX jobs_listed ON jobs (submitted_at DESC, id DESC) WHERE deleted = 0;
CREATE INDEX jobs_named ON jobs (owner, name) WHERE deleted = 0;
CREATE INDEX jobs_live ON jobs (id) WHERE live = 1;
CREATE TABLE labels (label TEXT NOT NULL, job TEXT NOT NULL, PRIMARY KEY (label, job)) WITHOUT ROWID;
"""
_UPSERT: Final = "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

Listener = Callable[[Job | None, Job, Recorded], None]


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs to list: all given filters must hold; newest first, behind `after` (submission time, id)."""

    visible_to: str | None = None
    visible_projects: tuple[str, ...] = ()
    owner: str | None = None
    project: str | None = None
    states: tuple[JobState, ...] = ()
    labels: tuple[str, ...] = ()
    after: tuple[str, str] | None = None
    limit: int = 50
    with_deleted: bool = False


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs of one page, and where the next begins (None: this was the last)."""

    jobs: tuple[Job, ...]
    next_after: tuple[str, str] | None = field(default=None)


class JobReader(Protocol):
    """What may be asked of the read model; Postgres could stand behind it."""

    def get(self, job_id: str) -> Job | None:
        """The job with this id, also a deleted one."""
        ...

    def find(self, owner: str, name: str) -> Job | None:
        """The undeleted job of this owner with this name."""
        ...

    def named(self, name: str) -> tuple[Job, ...]:
        """Undeleted jobs with this name, whoever owns them."""
        ...

    def query(self, query: JobQuery) -> JobPage:
        """A page of jobs; of undeleted ones where the query does not say otherwise."""
        ...


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a read model is in JOBS and in ARCHIVE after some events; None where they do not tell."""

    sequence: int | None = None
    archived: int | None = None


@dataclass(frozen=True, slots=True)
class _Change:
    """A job before and after an event."""

    before: Job | None
    after: Job
    recorded: Recorded


class JobReadModel:
    """Follows JOBS into a SQLite file; one a service."""

    def __init__(self, path: Path, bus: Bus) -> None:
        self._path = path
        self._bus = bus
        self._log = structlog.get_logger(readmodel=path.name)
        self._live: dict[str, Job] = {}
        self._listeners: list[Listener] = []
        self._moved = asyncio.Condition()
        self._db: sqlite3.Connection | None = None
        self._archived = 0
        self._jobs_read = asyncio.Event()
        self.sequence = 0
        self.caught_up = asyncio.Event()

    def on_event(self, listener: Listener) -> None:
        """Call the listener after each event that changes a job."""
        self._listeners.append(listener)

    def live(self) -> Iterator[Job]:
        """Jobs that have not ended."""
        return iter(tuple(self._live.values()))

    def get(self, job_id: str) -> Job | None:
        return self._live.get(job_id) or next(self._select("WHERE id = ?", (job_id,)), None)

    def find(self, owner: str, name: str) -> Job | None:
        return next(self._select("WHERE owner = ? AND name = ? AND deleted = 0", (owner, name)), None)

    def named(self, name: str) -> tuple[Job, ...]:
        return tuple(self._select("WHERE name = ? AND deleted = 0 LIMIT 100", (name,)))

    def query(self, query: JobQuery) -> JobPage:
        where, values = _where(query)
        jobs = tuple(
            self._select(f"WHERE {where} ORDER BY submitted_at DESC, id DESC LIMIT ?", (*values, query.limit + 1))
        )
        page = jobs[: query.limit]
        return JobPage(page, position(page[-1]) if len(jobs) > query.limit else None)

    async def reached(self, sequence: int) -> None:
        """Return once the event with this sequence is folded."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.sequence >= sequence)

    async def run(self) -> None:
        """Follow for ever."""
        await self._open()
        await self._read_archive()
        await run_together(self._follow_jobs(), self._follow_archive())

    async def _follow_jobs(self) -> None:
        async for batch in self._bus.follow_batches(after=self.sequence):
            events = [item for item in batch if isinstance(item, Recorded)]
            await self._take_patiently(events, Reach(sequence=events[-1].sequence if events else self.sequence))
            for item in batch:
                if isinstance(item, CaughtUp):
                    self.sequence = max(self.sequence, item.sequence)
                    self._jobs_read.set()
            async with self._moved:
                self._moved.notify_all()

    async def _read_archive(self) -> None:
        """Take what has been archived by now."""
        async with aclosing(self._bus.follow_archive(after=self._archived)) as following:
            async for batch in following:
                await self._take_bundles([item for item in batch if isinstance(item, Bundle)])
                if any(isinstance(item, CaughtUp) for item in batch):
                    return

    async def _follow_archive(self) -> None:
        """Take what was archived since, and what moved there before it was read in JOBS, with what came behind it."""
        await self._jobs_read.wait()
        async for batch in self._bus.follow_archive(after=self._archived):
            bundles = [item for item in batch if isinstance(item, Bundle)]
            missed = {job for bundle in bundles for job in self._unknown_of(bundle)}
            await self._take_bundles(bundles)
            for job in missed:
                await self._take_patiently(await self._bus.history.job_events(job), Reach())
            if not self.caught_up.is_set() and any(isinstance(item, CaughtUp) for item in batch):
                self._announce()

    async def _take_bundles(self, bundles: list[Bundle]) -> None:
        events = [recorded for bundle in bundles for recorded in bundle.events]
        await self._take_patiently(events, Reach(archived=bundles[-1].sequence if bundles else self._archived))

    def _unknown_of(self, bundle: Bundle) -> Iterator[str]:
        """The job of the bundle, where it is news."""
        last = max((each for each in bundle.events if each.event.data.KIND == "state"), default=None, key=_sequence_of)
        known = self.get(last.event.subject) if last is not None else None
        if last is not None and (known is None or known.sequence < last.sequence):
            yield last.event.subject

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    async def _open(self) -> None:
        identity, last = await self._bus.stream_identity()
        last_archived = (await self._bus.stream_identity(ARCHIVE))[1]
        existed = self._path.exists() and self._path.stat().st_size > 0
        try:
            self._db = open_rebuildable(self._path, _SCHEMA_VERSION)
            stored = dict(self._db.execute("SELECT key, value FROM meta"))
            self.sequence, self._archived = int(stored["sequence"]), int(stored["archived"])
            whole = self._db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
            same = (stored["stream"], stored["boot"]) == (identity, boot_id())
            usable = whole and same and self.sequence <= last and self._archived <= last_archived
            if usable:
                self._live = {job.id: job for job in self._select("WHERE live = 1", ())}
        except (sqlite3.Error, KeyError, ValueError) as error:
            if existed:
                self._log.warning("readmodel_unusable", reason=str(error))
            usable = False
        if not usable:
            self._rebuild(identity)

    def _rebuild(self, identity: str) -> None:
        self.close()
        self._log.info("readmodel_rebuilt")
        remove_rebuildable(self._path)
        self._db = open_rebuildable(self._path, _SCHEMA_VERSION)
        self._db.executescript(_SCHEMA)
        self._db.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        known = "INSERT INTO meta VALUES ('stream', ?), ('boot', ?), ('sequence', '0'), ('archived', '0')"
        self._db.execute(known, (identity, boot_id()))
        self.sequence = self._archived = 0
        self._live = {}

    def _announce(self) -> None:
        self.caught_up.set()
        self._log.info("readmodel_caught_up", sequence=self.sequence, live=len(self._live))

    async def _take_patiently(self, events: list[Recorded], reach: Reach) -> None:
        while events:
            try:
                self._take(events, reach)
            except sqlite3.OperationalError as error:
                self._log.error("readmodel_not_written", sequence=events[0].sequence, reason=str(error))
                await asyncio.sleep(_RETRY_S)
            else:
                return

    def _take(self, events: list[Recorded], reach: Reach) -> None:
        changes = list(self._changes(events))
        self._write(reach, changes)
        for change in changes:
            self._remember(change.after)
            if reach.sequence is not None:
                self.sequence = change.recorded.sequence
            for listener in self._listeners:
                listener(change.before, change.after, change.recorded)
        self.sequence = self.sequence if reach.sequence is None else reach.sequence
        self._archived = self._archived if reach.archived is None else reach.archived

    def _changes(self, events: list[Recorded]) -> Iterator[_Change]:
        """What the events change, one after the other."""
        moved: dict[str, Job] = {}
        for recorded in events:
            if recorded.event.data.KIND in ("state", "obs"):
                job_id = recorded.event.subject
                before = moved.get(job_id) or self.get(job_id)
                after = self._folded(before, recorded)
                if after is not None and after is not before:
                    moved[job_id] = after
                    yield _Change(before, after, recorded)

    def _folded(self, before: Job | None, recorded: Recorded) -> Job | None:
        try:
            return fold(before, recorded)
        except IllegalTransitionError as error:
            self._log.error("event_not_allowed", sequence=recorded.sequence, error=error.message)
            return before

    def _remember(self, job: Job) -> None:
        if job.state in ENDED:
            self._live.pop(job.id, None)
        else:
            self._live[job.id] = job

    def _write(self, reach: Reach, changes: list[_Change]) -> None:
        """Write how far the file is, and the jobs that changed, or nothing; raises OperationalError."""
        new = {change.after.id for change in changes if change.before is None}
        moved = {change.after.id: change.after for change in changes}
        self._database.execute("BEGIN")
        with self._database:
            for job in moved.values():
                self._store(job, is_new=job.id in new)
            for key, value in (("sequence", reach.sequence), ("archived", reach.archived)):
                if value is not None:
                    self._database.execute("UPDATE meta SET value = ? WHERE key = ?", (str(value), key))

    def _store(self, job: Job, *, is_new: bool) -> None:
        live = job.state not in ENDED
        row = (job.id, job.owner, job.project, job.name, job.state, position(job)[0], live, job.deleted)
        self._database.execute(_UPSERT, (*row, job.model_dump_json(by_alias=True, exclude_none=True)))
        if is_new:
            labels = [(label, job.id) for label in set(job.submitted.labels)]
            self._database.executemany("INSERT OR IGNORE INTO labels VALUES (?, ?)", labels)

    def _select(self, where: str, values: tuple[object, ...]) -> Iterator[Job]:
        with closing(self._database.execute(f"SELECT body FROM jobs {where}", values)) as rows:  # noqa: S608  # own text
            for (body,) in rows:
                yield Job.model_validate_json(body)

    @property
    def _database(self) -> sqlite3.Connection:
        if self._db is None:
            raise RuntimeError("the read model is not running")
        return self._db


def _sequence_of(recorded: Recorded) -> int:
    return recorded.sequence


def position(job: Job) -> tuple[str, str]:
    """Where a job stands in a list ordered by submission."""
    return job.submitted_at.isoformat(timespec="microseconds"), job.id


def _where(query: JobQuery) -> tuple[str, tuple[object, ...]]:
    clauses: list[str] = ["1"] if query.with_deleted else ["deleted = 0"]
    values: list[object] = []

    def add(clause: str, *more: object) -> None:
        clauses.append(clause)
        values.extend(more)

    if query.visible_to is not None:
        projects = ", ".join("?" * len(query.visible_projects))
        add(f"(owner = ? OR project IN ({projects}))", query.visible_to, *query.visible_projects)
    if query.owner is not None:
        add("owner = ?", query.owner)
    if query.project is not None:
        add("project = ?", query.project)
    if query.states:
        add(f"state IN ({', '.join('?' * len(query.states))})", *query.states)
    for label in query.labels:
        add("EXISTS (SELECT 1 FROM labels WHERE label = ? AND job = jobs.id)", label)
    if query.after is not None:
        add("(submitted_at, id) < (?, ?)", *query.after)
    return " AND ".join(clauses), tuple(values)
