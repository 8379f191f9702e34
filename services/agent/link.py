"""The agent's connection to NATS: chunks go out, JetStream's answers and the announcements of `logs` come in.

The agent speaks to NATS directly instead of through `shared.bus`, because it has to be small: it publishes on
`tm.log.>`, listens on `tm.kept.>` and its own inbox, and answers what it is asked on `tm.agent.<machine>.<verb>`, so
its NATS user may do nothing else. Where a chunk's answer
belongs is written in the reply subject itself, `<inbox>.<job>.<attempt>.<role>.<index>.<file>.<generation>.<offset>`,
so nothing is kept for answers that never come. Good answers are not needed: what counts is what `logs` announces.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from services.agent.settings import Settings
from shared.errors import TrainmasterError, UnavailableError
from shared.logs_wire import (
    KEPT_SUBJECTS,
    Chunk,
    Kept,
    MalformedChunkError,
    ReplicaRef,
    chunk_headers,
    chunk_subject,
    decode_kept,
)
from shared.nats_servers import servers, trust

_RECONNECT_WAIT_S: Final = 0.25
_PENDING_BYTES: Final = 1 << 20
_NO_STREAM: Final = "503"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """JetStream did not take the chunk at this place."""

    replica: ReplicaRef
    file: int
    generation: int
    offset: int
    reason: str


# Gives the answer to a request's body.
Answerer = Callable[[bytes], Awaitable[bytes]]


class Listener(Protocol):
    """Whoever wants to know what comes in."""

    def on_kept(self, kept: Kept) -> None:
        """`logs` announced how far it is."""
        ...

    def on_refused(self, refusal: Refusal) -> None:
        """A chunk was not taken."""
        ...

    def on_connection(self, *, connected: bool) -> None:
        """The connection was made or lost."""
        ...


class Link:
    """One connection that comes back by itself; `verbs` are the subjects that it answers on."""

    def __init__(self, settings: Settings, listener: Listener, verbs: Mapping[str, Answerer] | None = None) -> None:
        self._settings = settings
        self._listener = listener
        self._verbs = dict(verbs or {})
        self._answering: set[asyncio.Task[None]] = set()
        self._client = Client()
        self._inbox = f"_INBOX_{settings.nats_user}.chunk"
        self._last_error = ""

    @property
    def connected(self) -> bool:
        """Whether publishing makes sense."""
        return self._client.is_connected

    async def connect(self) -> None:
        """Connect and listen; raises UnavailableError where no server answers."""
        settings = self._settings
        try:
            await self._client.connect(
                servers(settings.nats_url),
                tls=trust(settings.nats_ca_file),
                user=settings.nats_user,
                password=settings.nats_password,
                name=f"agent-{settings.machine}",
                inbox_prefix=f"_INBOX_{settings.nats_user}",
                reconnect_time_wait=_RECONNECT_WAIT_S,  # type: ignore[arg-type]  # a float sleeps as well
                max_reconnect_attempts=-1,
                allow_reconnect=True,
                pending_size=_PENDING_BYTES,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnected,
                reconnected_cb=self._on_reconnected,
            )
            await self._client.subscribe(KEPT_SUBJECTS, cb=self._on_kept)
            await self._client.subscribe(f"{self._inbox}.>", cb=self._on_answer)
            for subject in self._verbs:
                await self._client.subscribe(subject, cb=self._on_request)
        except (NatsError, OSError) as error:
            raise UnavailableError(f"no NATS at {settings.nats_url}: {error}") from error
        self._listener.on_connection(connected=True)

    async def publish(self, chunk: Chunk, file: int) -> None:
        """Send a chunk of the file with this number; raises UnavailableError where the connection is lost."""
        reply = f"{self._inbox}.{chunk.file.replica.tokens}.{file}.{chunk.generation}.{chunk.offset}"
        subject = chunk_subject(chunk.file.replica)
        try:
            await self._client.publish(subject, chunk.data, reply=reply, headers=chunk_headers(chunk))
        except (NatsError, OSError) as error:
            raise UnavailableError(f"the chunk could not be sent: {error}") from error

    async def close(self) -> None:
        """Send what is pending and disconnect; whoever waits for an answer has to ask again."""
        for task in self._answering:
            task.cancel()
        if self._client.is_connected:
            await self._client.drain()
        else:
            await self._client.close()

    async def _on_kept(self, message: Msg) -> None:
        try:
            self._listener.on_kept(decode_kept(message.subject, message.data))
        except MalformedChunkError as error:
            _log.warning("%s", error.message)

    async def _on_answer(self, message: Msg) -> None:
        no_stream = (message.headers or {}).get("Status") == _NO_STREAM
        if no_stream or b'"error"' in message.data:
            reason = "no stream takes log chunks" if no_stream else message.data.decode(errors="replace")
            self._listener.on_refused(_refusal_of(message.subject, reason))

    async def _on_request(self, message: Msg) -> None:
        """Answer in a task of its own, so that the next request need not wait."""
        task = asyncio.create_task(self._answer(message))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, message: Msg) -> None:
        try:
            await message.respond(await self._verbs[message.subject](message.data))
        except (TrainmasterError, NatsError, OSError) as error:
            _log.warning("%s was not answered: %s", message.subject, error)

    async def _on_error(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if text != self._last_error:
            _log.warning("nats: %s", text)
        self._last_error = text

    async def _on_disconnected(self) -> None:
        self._listener.on_connection(connected=False)

    async def _on_reconnected(self) -> None:
        self._last_error = ""
        self._listener.on_connection(connected=True)


def _refusal_of(reply_subject: str, reason: str) -> Refusal:
    job, attempt, role, index, file, generation, offset = reply_subject.split(".")[-7:]
    return Refusal(ReplicaRef(job, int(attempt), role, int(index)), int(file), int(generation), int(offset), reason)
