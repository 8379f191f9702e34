"""Writing events: transitions under compare-and-set, atomic batches, observations.

A transition names the sequence of the job's last state event; the server refuses it where the job has moved on. Several
writes that must stand or fall together (a submission and its name claim, a scheduler's transition and its fence, the
end of an attempt and of its job) go as one atomic batch. A fence is a small expiring message that the server accepts
only while `tm.epoch.scheduler` still ends with the epoch the writer was elected in, so a deposed scheduler is refused.

A write whose answer got lost is sent again with the same message id. Where the server then says "wrong sequence" or
"duplicate", the stream is read: if the last event is the very fact that was to be written, the write has succeeded.

A cluster refuses to compare a sequence while another write that compares the same one is under way. All fenced writes
compare the epoch. So from the first such refusal on they are sent one after the other.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from nats.aio.client import Client
from nats.errors import ConnectionClosedError, ConnectionReconnectingError, NoRespondersError, OutboundBufferLimitError
from nats.errors import TimeoutError as NatsTimeoutError

from shared.bus.errors import BusError, BusUnavailableError, ConcurrentWriteError, FencedError
from shared.bus.history import History, archive_subject
from shared.bus.streams import CHECKS, EPOCH_SUBJECT, JOBS, NODES, USAGE
from shared.events import CONTENT_TYPE, Event, encode, subject_of
from shared.ids import name_token

EXPECTED_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT: Final = "Nats-Expected-Last-Subject-Sequence-Subject"
MESSAGE_ID: Final = "Nats-Msg-Id"
TIME_TO_LIVE: Final = "Nats-TTL"

_MOVED_ON: Final = 10071
_MOVING_ON: Final = 10164
WRONG_SEQUENCE: Final = frozenset({_MOVED_ON, _MOVING_ON})
"""Codes of refusals of an expected sequence: it is another one, or (in a cluster) another write of the subject is under
way, of which nobody knows yet whether it is kept."""
_DUPLICATE_IN_BATCH: Final = 10201
_INCOMPLETE_BATCH: Final = 10176
_STORE_FAILED: Final = 10077
_ATTEMPT_TIMEOUT_S: Final = 3.0
_MAX_PAUSE_S: Final = 1.0
_FENCE_LIFE: Final = "1s"


class _NotStoredError(Exception):
    """The server could not keep a message, as on a full disk; later it may."""


class _MovingOnError(Exception):
    """The server takes another write just now that compares the same sequence."""


_TRANSIENT: Final = (
    _NotStoredError,
    _MovingOnError,
    NatsTimeoutError,
    NoRespondersError,
    ConnectionClosedError,
    ConnectionReconnectingError,
    OutboundBufferLimitError,
    asyncio.TimeoutError,
    OSError,
)


@dataclass(frozen=True, slots=True)
class Transition:
    """A state event, and the sequence of the state event that it follows (0: it is the job's first).

    `expected` is None for a second transition of the same job within one batch: the first one guards both.
    """

    event: Event
    expected: int | None


def name_subject(owner: str, name: str) -> str:
    """Subject that holds the state of a user's job name."""
    return f"tm.name.{name_token(owner, name)}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A name event: `event` claims or releases the name that `owner` uses; `expected` as in `Transition`."""

    event: Event
    owner: str
    name: str
    expected: int

    @property
    def subject(self) -> str:
        """Subject that holds the state of the name."""
        return name_subject(self.owner, self.name)


@dataclass(frozen=True, slots=True)
class Fence:
    """The epoch that the writer was elected in: the sequence of its `LeaderElected` event."""

    epoch: int


Write = Transition | Claim | Fence


@dataclass(frozen=True, slots=True)
class _Message:
    subject: str
    body: bytes
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Answer:
    sequence: int
    error_code: int
    error: str
    duplicate: bool


class Publisher:
    """Sends messages and settles what their answers mean."""

    def __init__(self, client: Client, history: History, *, patience_s: float = 30.0) -> None:
        self._client = client
        self._history = history
        self._patience_s = patience_s
        self._fences_in_turn = False
        self._turn = asyncio.Lock()
        self._log = structlog.get_logger()

    async def write(self, writes: Sequence[Write]) -> int:
        """Commit all of them or none; gives the sequence of the last.

        Raises ConcurrentWriteError, FencedError, BusUnavailableError (outcome unknown).
        """
        messages = [_message(write) for write in writes]
        answer = await self._send(messages)
        if answer.error_code in (_MOVED_ON, _DUPLICATE_IN_BATCH) or answer.duplicate:
            return await self._settle(writes, answer)
        if answer.error_code:
            raise BusError(f"{messages[-1].subject} was refused: {answer.error}")
        return answer.sequence

    async def observe(self, event: Event, subject: str) -> int:
        """Publish an observation; a repeat of one already there is the same event."""
        answer = await self._send([_Message(subject, encode(event), _headers(event))])
        if answer.error_code:
            raise BusError(f"{subject} was refused: {answer.error}")
        return answer.sequence

    async def meter(self, event: Event, subject: str, expected: int) -> int:
        """Publish a usage event if the subject still ends with the expected sequence; gives its own."""
        headers = {**_headers(event), EXPECTED_SEQUENCE: str(expected)}
        answer = await self._send([_Message(subject, encode(event), headers)])
        if answer.error_code == _MOVED_ON or answer.duplicate:
            last = await self._history.last_event(subject, stream=USAGE)
            if last is not None and last.event.same_fact(event):
                return last.sequence
            raise ConcurrentWriteError(subject, expected)
        if answer.error_code:
            raise BusError(f"{subject} was refused: {answer.error}")
        return answer.sequence

    async def archive(self, job: str, bundle: bytes, expected: int) -> int:
        """Append a bundle behind the job's last one; gives its sequence. Raises ConcurrentWriteError."""
        subject = archive_subject(job)
        answer = await self._send([_Message(subject, bundle, {EXPECTED_SEQUENCE: str(expected)})])
        if answer.error_code == _MOVED_ON:
            raise ConcurrentWriteError(subject, expected)
        if answer.error_code:
            raise BusError(f"{subject} was refused: {answer.error}")
        return answer.sequence

    async def elect(self, event: Event, expected: int) -> int:
        """Publish a leadership event if the epoch is still the expected one; gives the new epoch."""
        headers = {**_headers(event), EXPECTED_SEQUENCE: str(expected)}
        answer = await self._send([_Message(EPOCH_SUBJECT, encode(event), headers)])
        if answer.error_code == _MOVED_ON:
            raise FencedError(expected)
        if answer.error_code:
            raise BusError(f"{EPOCH_SUBJECT} was refused: {answer.error}")
        return answer.sequence

    async def _send(self, messages: Sequence[_Message]) -> _Answer:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        pause_s = 0.05
        while True:
            try:
                return await self._attempt(messages, deadline)
            except _TRANSIENT as error:
                self._fences_in_turn |= isinstance(error, _MovingOnError)
                if loop.time() + pause_s > deadline:
                    raise BusUnavailableError(
                        f"JetStream did not take {messages[-1].subject} within {self._patience_s:g} s: "
                        f"{error or type(error).__name__}",
                    ) from error
                self._log.warning("publish_retried", subject=messages[-1].subject, error=type(error).__name__)
            await asyncio.sleep(pause_s)
            pause_s = min(_MAX_PAUSE_S, pause_s * 2)

    async def _attempt(self, messages: Sequence[_Message], deadline: float) -> _Answer:
        if not (self._fences_in_turn and any(map(_is_fence, messages))):
            return await self._transmit(messages)
        async with asyncio.timeout_at(deadline):
            await self._turn.acquire()
        try:
            return await self._transmit(messages)
        finally:
            self._turn.release()

    async def _transmit(self, messages: Sequence[_Message]) -> _Answer:
        return await (self._one(messages[0]) if len(messages) == 1 else self._batch(messages))

    async def _one(self, message: _Message) -> _Answer:
        reply = await self._client.request(
            message.subject, message.body, timeout=_ATTEMPT_TIMEOUT_S, headers=message.headers
        )
        answer = _answer(reply.data)
        if answer.error_code in (_STORE_FAILED, _INCOMPLETE_BATCH):
            raise _NotStoredError(answer.error)
        if answer.error_code == _MOVING_ON:
            raise _MovingOnError(answer.error)
        return answer

    async def _batch(self, messages: Sequence[_Message]) -> _Answer:
        batch = uuid.uuid4().hex
        for number, message in enumerate(messages[:-1], start=1):
            headers = {**message.headers, "Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
            await self._client.publish(message.subject, message.body, headers=headers)
        last = messages[-1]
        commit = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(len(messages)), "Nats-Batch-Commit": "1"}
        return await self._one(_Message(last.subject, last.body, {**last.headers, **commit}))

    async def _settle(self, writes: Sequence[Write], answer: _Answer) -> int:
        for job, expected, mine in _transitions_of(writes):
            last = await self._history.last_state(job)
            if last is not None and last.event.same_fact(mine):
                return last.sequence
            if (last.sequence if last else 0) != expected:
                raise ConcurrentWriteError(f"tm.job.{job}.state.>", expected)
        for write in writes:
            if isinstance(write, Fence) and await self._history.epoch() != write.epoch:
                raise FencedError(write.epoch)
            if isinstance(write, Claim) and await self._history.last_sequence(write.subject) != write.expected:
                raise ConcurrentWriteError(write.subject, write.expected)
        raise BusError(f"the batch was refused though every sequence is as expected: {answer.error}")


def _is_fence(message: _Message) -> bool:
    return message.headers.get(EXPECTED_SUBJECT) == EPOCH_SUBJECT


def _transitions_of(writes: Sequence[Write]) -> list[tuple[str, int, Event]]:
    """For each job: the sequence expected, and the last event that this batch writes."""
    expected: dict[str, int] = {}
    last: dict[str, Event] = {}
    for write in writes:
        if isinstance(write, Transition):
            expected.setdefault(write.event.subject, write.expected or 0)
            last[write.event.subject] = write.event
    return [(job, expected[job], last[job]) for job in last]


def _message(write: Write) -> _Message:
    if isinstance(write, Fence):
        headers = {EXPECTED_SEQUENCE: str(write.epoch), EXPECTED_SUBJECT: EPOCH_SUBJECT, TIME_TO_LIVE: _FENCE_LIFE}
        return _Message(f"tm.epoch.fence.{uuid.uuid4().hex[:8]}", b"", headers)
    if isinstance(write, Claim):
        return _Message(write.subject, encode(write.event), {EXPECTED_SEQUENCE: str(write.expected)})
    headers = _headers(write.event)
    if write.expected is not None:
        headers |= {EXPECTED_SEQUENCE: str(write.expected), EXPECTED_SUBJECT: f"tm.job.{write.event.subject}.state.>"}
    return _Message(subject_of(write.event), encode(write.event), headers)


def _headers(event: Event) -> dict[str, str]:
    headers = {MESSAGE_ID: event.message_id, "content-type": CONTENT_TYPE, "Nats-Expected-Stream": _stream_of(event)}
    if event.traceparent:
        headers["traceparent"] = event.traceparent
    return headers


def _stream_of(event: Event) -> str:
    return {"node": NODES, "usage": USAGE, "check": CHECKS}.get(event.data.KIND, JOBS)


def _answer(body: bytes) -> _Answer:
    document = json.loads(body)
    error = document.get("error") or {}
    return _Answer(
        sequence=int(document.get("seq") or 0),
        error_code=int(error.get("err_code") or error.get("code") or 0),
        error=str(error.get("description", "")),
        duplicate=bool(document.get("duplicate")),
    )
