"""Trying the platform's rules on a log: what is sent, and what the answer means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trainmaster.client import Client
from trainmaster.decoding import Document, Fields
from trainmaster.errors import InputError

PATH: Final = "/v1/rules/test"
# JSON may double the bytes of a text, and the platform takes 16 MiB.
TEXT_MAX_BYTES: Final = 7 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogText:
    """The log of one replica, as text; `cut` where its beginning was left out."""

    role: str
    index: int
    text: str
    cut: bool = False


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


def stored_logs(client: Client, job: str, attempt: int | None) -> list[LogText]:
    """The stored logs of an attempt of a job, of the last one where none is named."""
    sources = client.log_sources(job)
    number = attempt or max((source.attempt for source in sources), default=0)
    chosen = [source for source in sources if source.attempt == number]
    if not chosen:
        raise InputError(f"{job} has no logs" + (f" of attempt {attempt}" if attempt else ""))
    most = TEXT_MAX_BYTES // len(chosen)
    return [
        log_text(b"".join(page.content for page in client.logs(job, source, raw=True)), source.role, source.index, most)
        for source in chosen
    ]


def backtest(client: Client, logs: Sequence[LogText], exit_code: int) -> Document:
    """What the platform's rules make of these logs."""
    texts = [{"role": log.role, "index": log.index, "text": log.text} for log in logs]
    body: dict[str, Any] = {"logs": texts, "exitCode": exit_code}
    return client.write("POST", PATH, body)
