"""What `/v1/logs` answers: sources, pages, chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainmaster.decoding import Document, Fields


@dataclass(frozen=True, slots=True)
class LogSource:
    """One replica's log."""

    attempt: int
    role: str
    index: int
    size_bytes: int
    ended: bool

    @property
    def name(self) -> str:
        """`worker-0`."""
        return f"{self.role}-{self.index}"

    @classmethod
    def of(cls, fields: Fields) -> LogSource:
        """The log that an entry of `/v1/logs/{job}` describes."""
        return cls(
            attempt=fields.integer("attempt"),
            role=fields.text("role"),
            index=fields.integer("index"),
            size_bytes=fields.integer("size"),
            ended=fields.flag("ended"),
        )


@dataclass(frozen=True, slots=True)
class LogBegin:
    """Where to begin in a log: one of the first four, else at its beginning; and up to which time to go."""

    offset: int | None = None
    line: int | None = None
    since: str | None = None
    tail: int | None = None
    until: str | None = None

    @property
    def params(self) -> dict[str, str | int | None]:
        """The query that says so."""
        return {name: getattr(self, name) for name in ("offset", "line", "since", "tail", "until")}


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some bytes of a log, where they begin, and where the next page does."""

    content: bytes
    offset: int
    next_offset: int
    size_bytes: int
    ended: bool


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Some text of a replica's log; it may begin or end within a line."""

    attempt: int
    role: str
    index: int
    offset: int
    text: str

    @property
    def document(self) -> Document:
        """The chunk as the API sends it."""
        return {name: getattr(self, name) for name in ("attempt", "role", "index", "offset", "text")}

    @classmethod
    def of(cls, document: Any) -> LogChunk:
        """The chunk that a `chunk` event of the follow stream holds."""
        fields = Fields.of(document)
        return cls(
            attempt=fields.integer("attempt"),
            role=fields.text("role"),
            index=fields.integer("index"),
            offset=fields.integer("offset"),
            text=fields.text("text"),
        )
