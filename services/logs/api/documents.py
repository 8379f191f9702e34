"""The queries and documents of the routes about logs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Header, Path
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from services.logs.domain.cursor import CURSOR_MAX_CHARS, encode_cursor
from services.logs.domain.following import Selection
from services.logs.domain.matching import PATTERN_MAX_CHARS, Pattern
from services.logs.handlers import Wanted
from services.logs.merged import LINES_MAX, MergedPage
from services.logs.scanning import TimeRange
from services.logs.search import Scope
from services.logs.tail import TAIL_MAX_BYTES
from shared.clock import rfc3339
from shared.units import format_bytes

TAIL_MAX_LINES: Final = 100_000
MATCHES_MAX: Final = 10_000

Attempt = Annotated[int, Path(ge=1, le=1_000_000)]
Index = Annotated[int, Path(ge=0, le=1_000_000)]
LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=CURSOR_MAX_CHARS)]
_Role = Annotated[str | None, Field(max_length=63)]


class ReplicaLog(BaseModel):
    """One log of a job."""

    attempt: int
    role: str
    index: int
    size: int = Field(description="bytes so far")
    ended: bool = Field(description="whether nothing more comes")


class JobLogs(BaseModel):
    """All logs of a job."""

    replicas: list[ReplicaLog]


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PartQuery(_Query):
    """Which part of a log."""

    offset: int | None = Field(None, ge=0, description="first byte; default: the beginning")
    line: int | None = Field(None, ge=1, description="first line, counted from 1")
    since: AwareDatetime | None = Field(None, description="from what was seen at this time on")
    tail: int | None = Field(
        None, ge=0, le=TAIL_MAX_LINES, description=f"the last lines, at most {format_bytes(TAIL_MAX_BYTES)} of them"
    )
    limit: int | None = Field(None, ge=1, description="bytes at most; default: all there is")
    lines: int | None = Field(None, ge=1, description="lines at most")
    until: AwareDatetime | None = Field(None, description="up to what was seen at this time")
    raw: bool = Field(default=False, description="the very bytes that were written")

    @model_validator(mode="after")
    def _one_beginning(self) -> PartQuery:
        given = [name for name in ("offset", "line", "since", "tail") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"a part begins in one place; give only one of {', '.join(given)}")
        return self

    @property
    def wanted(self) -> Wanted:
        """The part as the handlers know it."""
        return Wanted(
            self.offset,
            self.line,
            millis_of(self.since),
            self.tail,
            self.limit,
            self.lines,
            millis_of(self.until),
            self.raw,
        )


class FollowQuery(_Query):
    """Which logs to follow, and how much of what is there."""

    attempt: int | None = Field(None, ge=1, description="default: the last attempt, and those that come after it")
    role: _Role = None
    index: int | None = Field(None, ge=0)
    tail: int | None = Field(None, ge=0, le=TAIL_MAX_LINES, description="begin with the last lines; default: with all")
    raw: bool = Field(default=False, description="with escape sequences and carriage returns")

    @property
    def selection(self) -> Selection:
        """The logs that are meant."""
        return Selection(self.attempt, self.role, self.index)


class MergedQuery(_Query):
    """Which lines of which replicas."""

    attempt: int | None = Field(None, ge=1, description="default: the last one")
    role: _Role = None
    index: int | None = Field(None, ge=0)
    since: AwareDatetime | None = Field(None, description="from what was seen at this time on")
    until: AwareDatetime | None = Field(None, description="up to what was seen at this time")
    limit: int = Field(LINES_MAX, ge=1, le=LINES_MAX, description="lines at most")
    cursor: str | None = Field(None, max_length=CURSOR_MAX_CHARS, description="`next` of the page before")
    raw: bool = Field(default=False, description="with escape sequences and line ends")


class SearchQuery(_Query):
    """What to look for, and where."""

    pattern: str = Field(min_length=1, max_length=PATTERN_MAX_CHARS)
    regex: bool = Field(default=False, description="the pattern is a regular expression, and no literal")
    ignore_case: bool = Field(default=False, alias="ignoreCase")
    job: str | None = Field(None, max_length=200, description="name or id; default: all of one's own jobs")
    project: str | None = Field(None, max_length=200, description="the visible jobs of a project instead")
    attempt: int | None = Field(None, ge=1)
    role: _Role = None
    index: int | None = Field(None, ge=0)
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    limit: int = Field(1000, ge=1, le=MATCHES_MAX, description="lines at most")
    cursor: str | None = Field(None, max_length=1024, description="id of an event: go on behind it")

    @model_validator(mode="after")
    def _one_scope(self) -> SearchQuery:
        if self.job is not None and self.project is not None:
            raise ValueError("give a job or a project, not both")
        return self

    @property
    def sought(self) -> Pattern:
        """The pattern."""
        return Pattern(self.pattern, self.regex, self.ignore_case)

    @property
    def scope(self) -> Scope:
        """Where to look."""
        selection = Selection(self.attempt, self.role, self.index)
        return Scope(self.job, self.project, selection, TimeRange(millis_of(self.since), millis_of(self.until)))


class DownloadQuery(_Query):
    """In which form."""

    raw: bool = Field(default=False, description="the very bytes that were written; these can be asked for in ranges")
    zstd: bool = Field(default=False, description="packed, as zstd does it")


class LogLine(BaseModel):
    """A line of a replica."""

    role: str
    index: int
    offset: int
    time: str = Field(description="when it was seen")
    text: str


class LogLines(BaseModel):
    """Lines of several replicas by time; `next` is the cursor of the next page, null where nothing more can come."""

    attempt: int
    items: list[LogLine]
    next: str | None


def lines_document(page: MergedPage) -> LogLines:
    """A page as it is answered."""
    items = [
        LogLine(
            role=line.place[0],
            index=line.place[1],
            offset=line.offset,
            time=rfc3339(datetime.fromtimestamp(line.time_ms / 1000, UTC)),
            text=line.text,
        )
        for line in page.lines
    ]
    return LogLines(
        attempt=page.cursor.attempt, items=items, next=None if page.complete else encode_cursor(page.cursor)
    )


def millis_of(moment: datetime | None) -> int | None:
    """Unix milliseconds."""
    return None if moment is None else int(moment.timestamp() * 1000)
