"""Sandboxes of replicas: what is held of failed ones, and commands run in running ones as the platform streams them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from trainmaster.decoding import Fields
from trainmaster.errors import UnexpectedAnswerError, UnreachableError
from trainmaster.sse import SseEvent, decode, problem_of


@dataclass(frozen=True, slots=True)
class ExecOutput:
    """Something that a command run by `exec` wrote; `stream` is stdout or stderr."""

    stream: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ExecEnded:
    """The end of a command run by `exec`; the code is the one that a shell would give."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class KeptSandbox:
    """What a failed attempt left, held until a time; only admins are told where (`path`, on `machine`)."""

    attempt: int
    until: datetime | None
    machine: str
    path: str

    @classmethod
    def of(cls, fields: Fields) -> KeptSandbox:
        """One entry of `/v1/sandboxes/{job}`."""
        return cls(fields.integer("attempt"), fields.time("until"), fields.text("machine"), fields.text("path"))


def exec_pieces(chunks: Iterable[bytes]) -> Iterator[ExecOutput | ExecEnded]:
    """What the command wrote, and at last its end; raises UnreachableError where the stream breaks off before."""
    for event in decode(chunks):
        if event is None:
            continue
        if event.event == "problem":
            raise problem_of(event)
        piece = _piece(event)
        yield piece
        if isinstance(piece, ExecEnded):
            return
    raise UnreachableError("the platform closed the stream before the command had ended; the command was ended")


def _piece(event: SseEvent) -> ExecOutput | ExecEnded:
    try:
        fields = Fields.of(json.loads(event.data))
        if event.event == "exit":
            return ExecEnded(fields.integer("code"), fields.text("message"))
        return ExecOutput(event.event, base64.b64decode(fields.text("data"), validate=True))
    except ValueError as error:
        raise UnexpectedAnswerError(f"the platform streamed {event.data!r:.60}, which is no output") from error
