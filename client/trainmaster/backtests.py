"""Trying the platform's rules on a log: what is sent, and what the answer means."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trainmaster.client import Client
from trainmaster.decoding import Document, Fields
from trainmaster.documents.jobs import Replica
from trainmaster.documents.logs import LogSource
from trainmaster.errors import InputError
from trainmaster.stored_logs import LogLine

PATH: Final = "/v1/rules/test"
# JSON may double the bytes of a text, and the platform takes 16 MiB.
TEXT_MAX_BYTES: Final = 7 * 1024 * 1024
LAST_PART: Final = timedelta(minutes=15)
"""Of a log that is longer, what came in this time before the end."""
_SIGNAL_BASE: Final = 128


@dataclass(frozen=True, slots=True)
class LogText:
    """The log of one replica, as text; `cut` where its beginning was left out.

    `times` are pairs of a line, counted from 1, and the Unix milliseconds at which the lines from there on were seen.
    """

    role: str
    index: int
    text: str
    cut: bool = False
    times: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A line on which a rule holds."""

    rule: str
    failure_class: str
    replica: str
    number: int
    line: str
    wins: bool

    @classmethod
    def of(cls, fields: Fields) -> RuleMatch:
        """One entry of the answer."""
        return cls(
            rule=fields.text("rule"),
            failure_class=fields.text("class"),
            replica=fields.text("replica"),
            number=fields.integer("number"),
            line=fields.text("line"),
            wins=fields.flag("wins"),
        )


def log_text(content: bytes, role: str = "worker", index: int = 0, most: int = TEXT_MAX_BYTES) -> LogText:
    """The last part of a log that is not too long to send."""
    text = content[-most:].decode("utf-8", "replace").replace("\0", " ")
    return LogText(role, index, text, cut=len(content) > most)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """The logs of replicas that did not succeed, the first that failed first, and its exit code, where one is known."""

    logs: tuple[LogText, ...]
    exit_code: int | None


def stored_logs(client: Client, job: str, attempt: int | None) -> FailedAttempt:
    """What the platform keeps of an attempt of a job, of the last one where none is named."""
    sources = client.log_sources(job)
    number = attempt or max((source.attempt for source in sources), default=0)
    told = next((each for each in client.job(job).attempts if each.number == number), None)
    ends = {(each.role, each.index): each for each in told.replicas} if told else {}
    chosen = [
        source
        for source in sources
        if source.attempt == number and not _succeeded(ends.get((source.role, source.index)))
    ]
    if not chosen:
        raise InputError(f"{job} has no logs" + (f" of replicas that failed in attempt {attempt}" if attempt else ""))
    chosen.sort(key=lambda source: _order(ends.get((source.role, source.index))))
    until = (told.ended_at if told else None) or datetime.now(UTC)
    logs = [_timed(client, job, source, TEXT_MAX_BYTES // len(chosen), until - LAST_PART) for source in chosen]
    return FailedAttempt(tuple(logs), _exit_code(ends.get((chosen[0].role, chosen[0].index))))


def _timed(client: Client, job: str, source: LogSource, most: int, last_part: datetime) -> LogText:
    """A log with the times of its lines; of a long one what came last."""
    since = last_part.isoformat() if source.size_bytes > most else None
    kept: deque[LogLine] = deque()
    size_bytes, cut = 0, since is not None
    for line in client.stored_logs.lines(
        job, attempt=source.attempt, role=source.role, index=source.index, since=since
    ):
        kept.append(line)
        size_bytes += len(line.text.encode()) + 1
        while size_bytes > most:
            size_bytes -= len(kept.popleft().text.encode()) + 1
            cut = True
    text = "".join(f"{line.text}\n" for line in kept).replace("\0", " ")
    return LogText(source.role, source.index, text, cut, tuple(_times(kept)))


def _times(lines: Iterable[LogLine]) -> Iterator[tuple[int, int]]:
    """Each line that was seen at another time than the one before it."""
    before = -1
    for number, line in enumerate(lines, start=1):
        at_ms = int(datetime.fromisoformat(line.time).timestamp() * 1000)
        if at_ms != before:
            yield number, at_ms
        before = at_ms


def _succeeded(replica: Replica | None) -> bool:
    return replica is not None and replica.exit is not None and _exit_code(replica) == 0


def _order(replica: Replica | None) -> tuple[bool, float]:
    """Replicas that failed by themselves before those that were stopped, the first end first."""
    failed = replica is not None and replica.exit is not None and replica.exit.cause == "exited"
    ended_at = replica.ended_at.timestamp() if replica is not None and replica.ended_at is not None else math.inf
    return not failed, ended_at


def _exit_code(replica: Replica | None) -> int | None:
    """The exit code as a shell tells it; None of one that was stopped, is lost or goes on."""
    found = replica.exit if replica is not None else None
    if found is None or found.cause != "exited":
        return None
    return _SIGNAL_BASE + found.signal if found.signal else found.code


def backtest(client: Client, logs: Sequence[LogText], exit_code: int) -> Document:
    """What the platform's rules make of these logs."""
    body: dict[str, Any] = {"logs": [_sent(log) for log in logs], "exitCode": exit_code}
    return client.write("POST", PATH, body)


def _sent(log: LogText) -> dict[str, Any]:
    times = {"times": log.times} if log.times else {}
    return {"role": log.role, "index": log.index, "text": log.text, **times}
