"""`Client`: the platform's HTTP API as Python methods; the command line is written against it.

Methods that answer about jobs give the frozen values of `documents`; catalog things stay the API's own JSON. JOB is a
name or an id everywhere. Iterators that follow something (`follow_events`, `follow_logs`, `wait`) survive a restart of
the platform; what they notice on the way can be watched through `notice`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from trainmaster import sse
from trainmaster.changes import Change
from trainmaster.code_upload import with_uploads
from trainmaster.credentials import Login, current_login
from trainmaster.decoding import Document, Fields
from trainmaster.diagnoses import DiagnosisCalls
from trainmaster.documents import (
    ENDED_STATES,
    Applied,
    Explanation,
    Job,
    JobEvent,
    LogBegin,
    LogChunk,
    LogPage,
    LogSource,
    Page,
    Plan,
    Upload,
)
from trainmaster.errors import InputError, InvalidInputError, PackingError, UnexpectedAnswerError
from trainmaster.kinds import TRAINING_JOB, Kind, kind_of_argument, kind_of_document
from trainmaster.node_calls import NodeCalls
from trainmaster.packing import Archive, folder_digest, packed
from trainmaster.record_calls import Notice, RecordCalls, event_json
from trainmaster.reruns import rerun_document
from trainmaster.sandboxes import ExecEnded, ExecOutput, KeptSandbox, exec_pieces
from trainmaster.stored_logs import StoredLogs
from trainmaster.transport import Params, Transport, json_object, json_value, quoted
from trainmaster.usage import Bill, Verification

USAGE_PAGE: Final = 1000
LOG_PAGE_BYTES: Final = 1024 * 1024
UPLOAD_PIECE_BYTES: Final = 256 * 1024

Progress = Callable[[int, int], None]


class Client(RecordCalls):
    """A user's connection to one platform; use it as a context manager, or call `close`."""

    def __init__(
        self, url: str, token: str = "", *, timeout_s: float = 30.0, patience: sse.Patience | None = None
    ) -> None:
        self._patience = patience or sse.Patience()
        self._transport = Transport(url, token, timeout_s=timeout_s, pause=self._patience.pause)
        self.nodes = NodeCalls(self._transport)
        self.diagnoses = DiagnosisCalls(self._transport, self._patience)
        self.stored_logs = StoredLogs(self._transport, self._patience)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """The client of whoever ran `trainmaster login`."""
        login = current_login(environ)
        return cls(login.url, login.token)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    @property
    def url(self) -> str:
        """Address of the platform."""
        return self._transport.url

    # --- who ---------------------------------------------------------------------------------------------------------

    def login(self, username: str, password: str) -> Login:
        """A login with a fresh token; the token of this client does not change."""
        body = {"username": username, "password": password}
        return self._login(username, self._transport.document("POST", "/v1/auth/login", json=body))

    def change_password(self, current: str, new: str) -> Login:
        """Change the user's own password; every token from before is taken back, and the login has a new one."""
        name = Fields.of(self.me()).text("name")
        body = {"current": current, "new": new}
        answer = self._transport.document("PUT", "/v1/auth/password", json=body, repeatable=False)
        return self._login(name, answer)

    def _login(self, username: str, answer: Document) -> Login:
        token = Fields.of(answer).text("token")
        if not token:
            raise UnexpectedAnswerError(f"{self.url} sent no token")
        return Login(self.url, username, token)

    def me(self) -> Document:
        """The user whom the token speaks for."""
        return self._transport.document("GET", "/v1/auth/me")

    # --- documents of every kind -------------------------------------------------------------------------------------

    def apply(
        self,
        document: Mapping[str, Any],
        *,
        base: Path = Path(),
        progress: Progress | None = None,
    ) -> Applied:
        """Submit a job, or put a catalog document under its name; folders to upload are relative to `base`."""
        kind = kind_of_document(document.get("kind"))
        name = name_of(document)
        sent = with_uploads(document, lambda folder: self.upload(base / folder, progress=progress).digest)
        if kind.is_job:
            headers = {"Idempotency-Key": str(uuid.uuid4())}  # a repeat after a broken connection finds the first one
            response = self._transport.request("POST", kind.path, json=sent, headers=headers)
        else:
            response = self._transport.request("PUT", _path(kind, name), json=sent)
        answer = json_object(response) if response.content else dict(sent)
        name = Fields.of(answer).fields("metadata").text("name") or name
        return Applied(kind.singular, name, response.status_code == httpx.codes.CREATED, answer)

    def get(self, kind: str, name: str) -> Document:
        """One document, as the API has it."""
        return self._transport.document("GET", _path(kind_of_argument(kind), name))

    def read(self, path: str, params: Params | None = None) -> Document:
        """Whatever the API has at a path, for what has no method of its own."""
        return self._transport.document("GET", path, params=params or {})

    def write(self, method: str, path: str, body: Document) -> Document:
        """Send a document to a path, for what has no method of its own."""
        return self._transport.document(method, path, json=body)

    def page(
        self, kind: str, filters: Params | None = None, *, limit: int | None = None, cursor: str | None = None
    ) -> Page:
        """Some documents of a kind; `filters` are the API's own (jobs: state, label, project, owner)."""
        params: Params = {**(filters or {}), "limit": limit, "cursor": cursor}
        answer = Fields.of(self._transport.document("GET", kind_of_argument(kind).path, params=params))
        return Page(tuple(dict(item.document) for item in answer.each("items")), answer.text("next") or None)

    def list(self, kind: str, filters: Params | None = None) -> Iterator[Document]:
        """Every document of a kind that passes the filters, page by page."""
        page = self.page(kind, filters)
        yield from page.items
        while page.cursor:
            page = self.page(kind, filters, cursor=page.cursor)
            yield from page.items

    def delete(self, kind: str, name: str) -> None:
        """Delete an ended job or a catalog document."""
        self._transport.request("DELETE", _path(kind_of_argument(kind), name))

    def upload(self, folder: Path, *, progress: Progress | None = None) -> Upload:
        """Pack a code folder and have the platform keep it; raises PackingError where it does not want it."""
        with packed(folder) as archive:
            headers = {"Content-Type": "application/gzip", "Content-Length": str(archive.size_bytes)}
            sent: Any = {"content": _pieces(archive, progress), "headers": headers}
            try:
                # not repeatable: the archive is read while it is sent
                answer = self._transport.document("POST", "/v1/assets/uploads", **sent, repeatable=False)
            except InvalidInputError as error:
                reasons = [violation.message for violation in error.problem.violations] or [error.message]
                raise PackingError(f"the platform does not take {folder}: {'; '.join(reasons)}") from error
        return Upload(Fields.of(answer).text("digest"), Fields.of(answer).integer("size"))

    # --- jobs --------------------------------------------------------------------------------------------------------

    def job(self, job: str) -> Job:
        """The job as it is now."""
        return Job.of(self.get("jobs", job))

    def jobs(self, **filters: str | None) -> Iterator[Job]:
        """Every job that passes the filters: state, label, project, owner."""
        return map(Job.of, self.list("jobs", filters))

    def rerun(self, job: str, changes: Iterable[Change] = (), *, name: str | None = None) -> Applied:
        """Submit the job once more with changes, under a new name that the platform makes where none is given."""
        return self.apply(rerun_document(self.get("jobs", job), changes, name))

    def stop(self, job: str) -> Job:
        """Ask for the job's end; it comes when its replicas have gone (see `wait`)."""
        return Job.of(self._transport.document("POST", f"{_job_path(job)}/stop"))

    def explain(self, job: str) -> Explanation:
        """Why the job is not running, in numbers; of one that has ended its story."""
        answer = self._transport.document("GET", f"/v1/queue/{quoted(job)}")
        if answer.get("state") not in ENDED_STATES:
            return Explanation.of(answer)
        story = self._transport.document("GET", f"/v1/incidents/stories/{quoted(job)}")
        return Explanation.of({**answer, "story": story.get("sentences", [])})

    def plan(self, document: Mapping[str, Any], *, base: Path = Path()) -> Plan:
        """What would become of a job; nothing is submitted, and folders of code are not uploaded."""
        sent = with_uploads(document, lambda folder: folder_digest(base / folder))
        return Plan.of(self._transport.document("POST", "/v1/plans", json=sent))

    def execute(
        self, job: str, command: Sequence[str], *, role: str | None = None, index: int = 0, timeout_s: float = 600.0
    ) -> Iterator[ExecOutput | ExecEnded]:
        """Run a command beside a running replica's own: what it writes, and at last its end."""
        body = {"command": list(command), "role": role, "index": index, "timeout": timeout_s}
        path, headers = f"/v1/sandboxes/{quoted(job)}/exec", {"Accept": "text/event-stream"}
        with self._transport.stream(path, method="POST", json=body, headers=headers) as response:
            yield from exec_pieces(response.iter_bytes())

    def kept_sandboxes(self, job: str) -> tuple[KeptSandbox, ...]:
        """What is held of the job's failed attempts, as its `keepFor` asks for."""
        answer = Fields.of(self._transport.document("GET", f"/v1/sandboxes/{quoted(job)}"))
        return tuple(map(KeptSandbox.of, answer.each("items")))

    def events(self, job: str) -> tuple[JobEvent, ...]:
        """The job's history so far."""
        answer = json_value(self._transport.request("GET", f"{_job_path(job)}/events"))
        return tuple(JobEvent.of(item) for item in _items(answer))

    def follow_events(self, job: str, *, after: int | None = None, notice: Notice | None = None) -> Iterator[JobEvent]:
        """The job's events from its first, or from the one after sequence `after`, until the job has ended."""
        last_id = "" if after is None else str(after)
        for event in self._follow(f"{_job_path(job)}/events", {"follow": "true"}, notice, last_id):
            if event.event == "end":
                return
            job_event = JobEvent.of(event_json(event), int(event.id) if event.id.isdigit() else None)
            yield job_event
            if job_event.final_state:
                return

    def wait(self, job: str, *, notice: Notice | None = None) -> Job:
        """The job when it has ended."""
        for _event in self.follow_events(job, notice=notice):
            pass
        return self.job(job)

    # --- logs and scalars --------------------------------------------------------------------------------------------

    def log_sources(self, job: str) -> tuple[LogSource, ...]:
        """Which replicas of which attempts have a log."""
        answer = Fields.of(self._transport.document("GET", f"/v1/logs/{quoted(job)}"))
        return tuple(LogSource.of(replica) for replica in answer.each("replicas"))

    def log_page(
        self,
        job: str,
        source: LogSource,
        *,
        begin: LogBegin | None = None,
        limit: int | None = LOG_PAGE_BYTES,
        raw: bool = False,
    ) -> LogPage:
        """Some of a replica's log from a place on; `raw` as the replica wrote it."""
        path = f"/v1/logs/{quoted(job)}/{source.attempt}/{quoted(source.role)}/{source.index}"
        begin = begin or LogBegin()
        params: Params = {**begin.params, "limit": limit, "raw": "true" if raw else None}
        response = self._transport.request("GET", path, params=params, headers={"Accept": "text/plain"})
        return _log_page(response.content, response.headers, begin.offset or 0)

    def logs(
        self, job: str, source: LogSource, *, begin: LogBegin | None = None, raw: bool = False
    ) -> Iterator[LogPage]:
        """A replica's log from its beginning, or another place, up to what it has now."""
        page = self.log_page(job, source, begin=begin, raw=raw)
        while page.content:
            yield page
            if page.next_offset >= page.size_bytes:
                return
            until = begin.until if begin else None
            page = self.log_page(job, source, begin=LogBegin(offset=page.next_offset, until=until), raw=raw)

    def follow_logs(
        self,
        job: str,
        *,
        attempt: int | None = None,
        role: str | None = None,
        index: int | None = None,
        tail: int | None = None,
        notice: Notice | None = None,
    ) -> Iterator[LogChunk]:
        """Text of the matching replicas as it is written, until all of them have ended."""
        params: Params = {"attempt": attempt, "role": role, "index": index, "tail": tail}
        for event in self._follow(f"/v1/logs/{quoted(job)}/follow", params, notice):
            if event.event == "end":
                return
            if event.event == "chunk":
                yield LogChunk.of(event_json(event))

    # --- usage -------------------------------------------------------------------------------------------------------

    def bill(
        self, job: str | None = None, *, project: str | None = None, since: str | None = None, until: str | None = None
    ) -> Bill:
        """What a job, or everything that one may see, comes to; `since` and `until` are RFC 3339 times."""
        params: Params = {"job": job, "project": project, "from": since, "to": until, "limit": USAGE_PAGE}
        return Bill.of(self._pages("/v1/usage/bill", params))

    def verify_usage(self, job: str | None = None) -> Iterator[Verification]:
        """Have the platform recompute usage from the events of a job, or of all that one may see."""
        for page in self._pages("/v1/usage/verification", {"job": job}):
            yield from map(Verification.of, Fields.of(page).each("items"))

    def _pages(self, path: str, params: Params) -> Iterator[Document]:
        cursor: str | None = None
        while True:
            page = self._transport.document("GET", path, params={**params, "cursor": cursor})
            yield page
            cursor = Fields.of(page).text("next") or None
            if cursor is None:
                return

    # --- streams -----------------------------------------------------------------------------------------------------

    def _follow(self, path: str, params: Params, notice: Notice | None, last_id: str = "") -> Iterator[sse.SseEvent]:
        @contextmanager
        def connect(event_id: str) -> Iterator[Iterable[bytes]]:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": event_id} if event_id else {})}
            with self._transport.stream(path, params=params, headers=headers) as response:
                yield response.iter_bytes()

        for event in sse.resuming(connect, last_id=last_id, patience=self._patience):
            if isinstance(event, sse.SseEvent):
                yield event
            elif notice:
                notice(event)


def name_of(document: Mapping[str, Any]) -> str:
    """The name in a document's metadata, or for a job its beginning; raises InputError where there is none."""
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if name is None and document.get("kind") == TRAINING_JOB.name and isinstance(metadata, Mapping):
        name = metadata.get("generateName")
    if name is None or name == "":
        raise InputError("metadata.name is missing; every document needs a name, as in `metadata: {name: mnist}`")
    if not isinstance(name, str):
        raise InputError('metadata.name is no text; put it in quotes, as in `metadata: {name: "12"}`')
    return name


def _path(kind: Kind, name: str) -> str:
    return f"{kind.path}/{quoted(name)}"


def _job_path(job: str) -> str:
    return _path(TRAINING_JOB, job)


def _pieces(archive: Archive, progress: Progress | None) -> Iterator[bytes]:
    sent_bytes = 0
    while piece := archive.file.read(UPLOAD_PIECE_BYTES):
        yield piece
        sent_bytes += len(piece)
        if progress:
            progress(sent_bytes, archive.size_bytes)


def _items(answer: Any) -> list[Any]:
    items = answer.get("items") if isinstance(answer, dict) else answer
    if not isinstance(items, list):
        raise UnexpectedAnswerError("the platform's list of events is none")
    return items


def _log_page(content: bytes, headers: Mapping[str, str], asked_offset: int) -> LogPage:
    offset = int(headers.get("Tm-Offset", asked_offset))
    next_offset = int(headers.get("Tm-Next-Offset", offset + len(content)))
    ended = headers.get("Tm-Ended", "false").lower() == "true"
    return LogPage(content, offset, next_offset, int(headers.get("Tm-Size", next_offset)), ended)
