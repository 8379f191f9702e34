"""Server-sent events, read so that nothing is lost when the connection is.

`decode` turns the bytes of one response into events (WHATWG: fields, comments, any line ending, text torn anywhere).
`resuming` keeps a stream going over many responses: it reconnects with the id of the last event it has seen, waits
longer between failures, and gives up only when nothing at all has arrived for as long as its `Patience` lasts. A stream
that the platform closes is reopened as well; whoever reads the events knows which of them is the last.
"""

from __future__ import annotations

import codecs
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from trainmaster.errors import ApiError, TrainmasterError, UnavailableError, UnexpectedAnswerError, UnreachableError
from trainmaster.problems import error_of

FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 3.0
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event of a stream; `id` is the last one the stream has named, so that it can be resumed after this event."""

    event: str
    data: str
    id: str


@dataclass(frozen=True, slots=True)
class Interruption:
    """The connection is lost (`error`), or back again (None)."""

    error: TrainmasterError | None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go on without the platform, and the clock that says so."""

    total_s: float = 600.0
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


Connect = Callable[[str], AbstractContextManager[Iterable[bytes]]]


def decode(chunks: Iterable[bytes], last_id: str = "") -> Iterator[SseEvent | None]:
    """The events in a response's bytes, and a None after each piece of them, which shows that the line is alive."""
    event, data = "", list[str]()
    for line in _lines(chunks):
        if line is None:
            yield None
        elif not line:
            if event or data:  # an event without data is none in a browser, but losing an end mark would be worse
                yield SseEvent(event or "message", "\n".join(data), last_id)
            event, data = "", []
        else:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                event = value
            elif name == "data":
                data.append(value)
            elif name == "id" and "\0" not in value:
                last_id = value


def _lines(chunks: Iterable[bytes]) -> Iterator[str | None]:
    """Complete lines without their ends, and a None after each chunk; a CR at a chunk's end may be half of a CRLF."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    rest = ""
    for chunk in chunks:
        rest += decoder.decode(chunk)
        held = "\r" if rest.endswith("\r") else ""
        *lines, rest = _LINE_END.split(rest.removesuffix(held) if held else rest)
        rest += held
        yield from lines
        yield None


def problem_of(event: SseEvent) -> ApiError:
    """What the platform's last event says where the stream failed on its side."""
    try:
        return error_of(json.loads(event.data))
    except ValueError as error:
        raise UnexpectedAnswerError(f"the platform's stream ended with {event.data!r:.80}") from error


def resuming(
    connect: Connect, *, last_id: str = "", patience: Patience | None = None
) -> Iterator[SseEvent | Interruption]:
    """Events of a stream over as many connections as it takes; raises the last error when patience is at its end."""
    patience = patience or Patience()
    last_sign, failures = patience.clock(), 0
    while True:
        try:
            with connect(last_id) as chunks:
                for event in decode(chunks, last_id):
                    if failures:
                        yield Interruption(None)
                    last_sign, failures = patience.clock(), 0
                    if event is not None:
                        if event.event == "problem":
                            raise problem_of(event)
                        last_id = event.id
                        yield event
            error: TrainmasterError = UnreachableError("the platform closed the stream")
        except (UnreachableError, UnavailableError) as broken:
            error = broken
        if patience.clock() - last_sign > patience.total_s:
            raise error
        if not failures:
            yield Interruption(error)
        failures += 1
        patience.pause(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (failures - 1)))
