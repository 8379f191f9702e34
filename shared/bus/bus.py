"""The facade that services hold: one connection of one NATS user, and what may be done with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext

from shared.bus.archive import Archive
from shared.bus.connection import BusOptions, connect
from shared.bus.errors import BusUnavailableError
from shared.bus.follow import Batch, Bundle, CaughtUp, Follower, read_bundle, read_event
from shared.bus.history import History
from shared.bus.publish import Fence, Publisher, Transition, Write
from shared.bus.streams import ARCHIVE, JOBS
from shared.events import Event, subject_of
from shared.jobs import Job, Recorded

JOB_SUBJECTS: Final = ("tm.job.>",)
ARCHIVE_SUBJECTS: Final = ("tm.archive.*",)
_FLUSH_S: Final = 2.0


class Bus:
    """Typed access to JetStream for one service."""

    def __init__(self, client: Client, options: BusOptions, *, patience_s: float = 30.0) -> None:
        self.client: Client = client
        self.options = options
        self.js: JetStreamContext = client.jetstream()
        self.history = History(client, self.js)
        self._publisher = Publisher(client, self.history, patience_s=patience_s)
        self.archive = Archive(self.js, self.history, self._publisher)

    @classmethod
    async def connect(cls, options: BusOptions, *, patience_s: float = 30.0) -> Bus:
        """Connect as the user of the options; raises BusUnavailableError."""
        return cls(await connect(options), options, patience_s=patience_s)

    async def append(self, event: Event, *, expected: int, fence: Fence | None = None) -> int:
        """Commit one transition; gives its sequence. Raises ConcurrentWriteError, FencedError, BusUnavailableError."""
        transition = Transition(event, expected)
        return await self._publisher.write([fence, transition] if fence else [transition])

    async def append_batch(self, writes: Sequence[Write]) -> int:
        """Commit all writes or none; gives the sequence of the last. Raises as `append` does.

        Put a `Fence` and a `Claim` before the transitions, so that the sequence given is the last transition's.
        """
        return await self._publisher.write(writes)

    async def observe(self, event: Event, *, subject: str | None = None) -> int:
        """Publish an observation; gives its sequence."""
        return await self._publisher.observe(event, subject or subject_of(event))

    async def meter(self, event: Event, *, subject: str, expected: int) -> int:
        """Put a usage event on record behind the last one of its subject; gives its sequence.

        Raises ConcurrentWriteError, BusUnavailableError.
        """
        return await self._publisher.meter(event, subject, expected)

    async def elect(self, event: Event, *, expected: int) -> int:
        """Begin a new epoch of leadership; gives it. Raises FencedError where somebody else began one."""
        return await self._publisher.elect(event, expected)

    async def load_job(self, job: str) -> Job | None:
        """The job, folded from its events, archived ones included."""
        return await self.history.job(job)

    def follow(
        self, *, after: int, stream: str = JOBS, subjects: Sequence[str] = JOB_SUBJECTS
    ) -> AsyncIterator[Recorded | CaughtUp]:
        """Every event behind a sequence, for ever; `CaughtUp` once in between."""
        return Follower(self.client, self.js, stream, list(subjects), after, read_event).messages()

    def follow_batches(
        self, *, after: int, stream: str = JOBS, subjects: Sequence[str] = JOB_SUBJECTS, last_only: bool = False
    ) -> AsyncIterator[Batch]:
        """The same, as many at a time as have come; with `last_only` of each subject's past the last one alone."""
        return Follower(self.client, self.js, stream, list(subjects), after, read_event, last_only=last_only).batches()

    def follow_archive(self, *, after: int) -> AsyncGenerator[tuple[Bundle | CaughtUp, ...], None]:
        """Every bundle of archived events behind a sequence of ARCHIVE, for ever, as many at a time as have come."""
        return Follower(self.client, self.js, ARCHIVE, list(ARCHIVE_SUBJECTS), after, read_bundle).batches()

    async def stream_identity(self, stream: str = JOBS) -> tuple[str, int]:
        """When the stream was made and its last sequence: a read model of another stream must be rebuilt."""
        info = await self.js.stream_info(stream)
        return str(info.created), info.state.last_seq

    async def ask(self, subject: str, body: bytes, *, within_s: float) -> bytes:
        """The answer to a request outside of JetStream; raises BusUnavailableError where none comes in time."""
        try:
            return (await self.client.request(subject, body, timeout=within_s)).data
        except (NatsError, OSError, TimeoutError) as error:
            raise BusUnavailableError(f"nobody answered on {subject}: {type(error).__name__}") from error

    async def check(self) -> None:
        """Raise BusUnavailableError where JetStream does not answer."""
        try:
            await self.js.account_info()
        except Exception as error:
            raise BusUnavailableError(f"JetStream does not answer: {type(error).__name__}") from error

    async def close(self) -> None:
        """Send what is pending, as far as the server takes it within two seconds, and disconnect."""
        if self.client.is_connected:
            with contextlib.suppress(NatsError, OSError, TimeoutError):
                async with asyncio.timeout(_FLUSH_S):
                    await self.client.flush()
        if not self.client.is_closed:
            await self.client.close()
