"""From the log transit into the store: one task a partition.

A batch of messages is decoded, made durable by the partition, announced to the agents, and only then acknowledged.
While a batch is being written the next one piles up, so that batches grow with the load. A disk that does not take a
batch holds the partition up until it does; the agents' files are the buffer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import structlog
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from services.logs.adapters.partition import Partition
from services.logs.metrics import IngestMetrics
from shared.bus import Bus
from shared.bus.deadletters import DeadLetter, bury
from shared.bus.feed import Feed
from shared.bus.streams import LOGS, Reaction
from shared.logs_wire import Chunk, Kept, MalformedChunkError, decode_chunk, encode_kept, kept_subject

_RETRY_S: Final = 1.0
_RETRY_MAX_S: Final = 15.0


class BusAnnouncer:
    """Announces over core NATS."""

    def __init__(self, bus: Bus) -> None:
        self._client = bus.client

    async def announce(self, answers: Iterable[Kept]) -> None:
        for kept in answers:
            await self._client.publish(kept_subject(kept.file.replica), encode_kept(kept))


class Ingest:
    """Takes the chunks of one partition."""

    def __init__(self, bus: Bus, reaction: Reaction, partition: Partition, metrics: IngestMetrics) -> None:
        self._bus = bus
        self._feed = Feed(bus, reaction)
        self._partition = partition
        self._announcer = BusAnnouncer(bus)
        self._metrics = metrics
        self._log = structlog.get_logger(service="logs", partition=partition.number)

    async def run(self) -> None:
        """Take chunks until cancelled."""
        await self._partition.recover()
        await self._feed.open()
        try:
            while True:
                messages = await self._feed.batch()
                await self._keep(await self._decoded(messages))
                await self._acknowledge(messages)
        finally:
            await self._feed.close()

    async def _decoded(self, messages: Sequence[Msg]) -> list[Chunk]:
        chunks = []
        for message in messages:
            try:
                chunks.append(decode_chunk(message.subject, message.headers, message.data))
            except MalformedChunkError as error:
                await self._bury(message, error)
        return chunks

    async def _keep(self, chunks: Sequence[Chunk]) -> None:
        pause_s = _RETRY_S
        while True:
            try:
                answers = await self._partition.commit(chunks)
            except OSError as error:
                self._log.error("chunks_not_kept", reason=str(error), retry_s=pause_s)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _RETRY_MAX_S)
                continue
            self._metrics.count(chunks, answers)
            break
        try:
            await self._announcer.announce(answers)
        except (NatsError, OSError) as error:
            self._log.warning("announcement_lost", reason=str(error) or type(error).__name__)

    async def _acknowledge(self, messages: Sequence[Msg]) -> None:
        """An acknowledgement that is lost brings the message again, as a repeat."""
        try:
            for message in messages:
                await message.ack()
        except (NatsError, OSError) as error:
            self._log.warning("acknowledgement_lost", reason=str(error) or type(error).__name__)

    async def _bury(self, message: Msg, error: MalformedChunkError) -> None:
        self._log.error("chunk_malformed", reason=error.message)
        sequence = message.metadata.sequence.stream
        letter = DeadLetter("logs", "malformed-chunk", error.message, LOGS, sequence, message.subject, message.data)
        try:
            await bury(self._bus.js, letter)
        except (NatsError, OSError) as problem:
            self._log.warning("dead_letter_lost", reason=str(problem) or type(problem).__name__)
