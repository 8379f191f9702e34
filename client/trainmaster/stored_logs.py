"""More of what the platform can do with logs: lines of all replicas by time, searching, whole logs as files.

`Client.stored_logs` is one of these. Times are RFC 3339; a search survives a broken connection, and a download goes on
where it broke off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Final

from trainmaster import sse
from trainmaster.decoding import Document, Fields
from trainmaster.documents import LogSource
from trainmaster.errors import UnreachableError
from trainmaster.record_calls import event_json
from trainmaster.transport import Params, Transport, quoted

_DOWNLOAD_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a replica, where it stands in its log, and when it was seen; `job` where several were searched."""

    role: str
    index: int
    offset: int
    time: str
    text: str
    attempt: int
    job: str
    document: Document

    @classmethod
    def of(cls, fields: Fields, *, attempt: int = 0, job: str = "") -> LogLine:
        """The line in an answer."""
        return cls(
            role=fields.text("role"),
            index=fields.integer("index"),
            offset=fields.integer("offset"),
            time=fields.text("time"),
            text=fields.text("text"),
            attempt=fields.integer("attempt") or attempt,
            job=fields.text("job") or job,
            document=dict(fields.document),
        )

    @property
    def name(self) -> str:
        """`worker-0`."""
        return f"{self.role}-{self.index}"


@dataclass(frozen=True, slots=True)
class LogSearch:
    """What to look for and where; without a job and a project in all of one's own jobs."""

    pattern: str
    regex: bool = False
    ignore_case: bool = False
    job: str | None = None
    project: str | None = None
    attempt: int | None = None
    role: str | None = None
    index: int | None = None
    since: str | None = None
    until: str | None = None
    limit: int | None = None

    @property
    def params(self) -> Params:
        """The query of the request."""
        return {
            "pattern": self.pattern,
            "regex": "true" if self.regex else None,
            "ignoreCase": "true" if self.ignore_case else None,
            "job": self.job,
            "project": self.project,
            "attempt": self.attempt,
            "role": self.role,
            "index": self.index,
            "since": self.since,
            "until": self.until,
            "limit": self.limit,
        }


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """How a search ended: `cursor` goes on behind the last line where its limit stopped it."""

    matches: int
    searched_bytes: int
    cursor: str | None


class StoredLogs:
    """The calls."""

    def __init__(self, transport: Transport, patience: sse.Patience) -> None:
        self._transport = transport
        self._patience = patience

    def lines(
        self,
        job: str,
        *,
        attempt: int | None = None,
        role: str | None = None,
        index: int | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[LogLine]:
        """Lines of the matching replicas of an attempt by time, as far as there are any now."""
        params: Params = {"attempt": attempt, "role": role, "index": index, "since": since, "until": until}
        cursor: str | None = None
        while True:
            page = self._transport.document("GET", f"/v1/logs/{quoted(job)}/lines", params={**params, "cursor": cursor})
            fields = Fields.of(page)
            lines = [LogLine.of(item, attempt=fields.integer("attempt"), job=job) for item in fields.each("items")]
            yield from lines
            cursor = fields.text("next") or None
            if cursor is None or not lines:
                return

    def search(self, wanted: LogSearch, cursor: str | None = None) -> Iterator[LogLine | SearchEnd]:
        """Lines as they are found, and at last how the search ended."""

        @contextmanager
        def connect(event_id: str) -> Iterator[Iterable[bytes]]:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": event_id} if event_id else {})}
            with self._transport.stream("/v1/log-search", params=wanted.params, headers=headers) as response:
                yield response.iter_bytes()

        for event in sse.resuming(connect, last_id=cursor or "", patience=self._patience):
            if isinstance(event, sse.Interruption):
                continue
            if event.event == "match":
                yield LogLine.of(Fields.of(event_json(event)))
            elif event.event == "end":
                fields = Fields.of(event_json(event))
                yield SearchEnd(
                    fields.integer("matches"), fields.integer("searched_bytes"), fields.text("next") or None
                )
                return

    def download(self, job: str, source: LogSource, target: IO[bytes], *, raw: bool = False, zstd: bool = False) -> int:
        """Write what a log holds now to a file that can be written at its end; gives the number of bytes."""
        path = f"/v1/logs/{quoted(job)}/{source.attempt}/{quoted(source.role)}/{source.index}/download"
        params: Params = {"raw": "true" if raw else None, "zstd": "true" if zstd else None}
        written, tries = 0, _DOWNLOAD_TRIES
        while True:
            headers = {"Accept": "*/*", **({"Range": f"bytes={written}-"} if written else {})}
            try:
                with self._transport.stream(path, params=params, headers=headers) as response:
                    for piece in response.iter_bytes():
                        target.write(piece)
                        written += len(piece)
            except UnreachableError:
                tries -= 1
                if tries == 0 or not raw or zstd:  # only the very bytes can be gone on with
                    raise
            else:
                return written
