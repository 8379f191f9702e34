"""A command run in a replica's sandbox: the platform's stream of events as what it wrote and its end."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator

from trainmaster.decoding import Fields
from trainmaster.documents import ExecEnded, ExecOutput
from trainmaster.errors import UnexpectedAnswerError, UnreachableError
from trainmaster.sse import SseEvent, decode, problem_of


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
