"""Reading logs as they pass: one task a partition of the log transit, on a durable consumer of its own.

A batch is read into scans, what was found is put on record, everything is committed to the memory in one transaction,
and only then the batch is acknowledged. So a watchdog that dies in between reads the same chunks again and comes to the
same: incidents have fixed ids, and what the memory has already is passed over. What comes while a batch is read is read
with it, up to a limit: a transaction costs as much as the search of a chunk or two.

Chunks that were in hand when a watchdog died come again after those behind them. A chunk behind a gap is therefore put
back for a moment; one that was put back too often lies behind bytes that will never come, and reading goes on over the
gap with a new line.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import structlog
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.errors import APIError

from services.watchdog.adapters.memory import AttemptKey, Changes, Memory, Noticed
from services.watchdog.domain.clocks import Clocks
from services.watchdog.domain.found import Sighting
from services.watchdog.domain.matching import Hit, Scan, take
from services.watchdog.domain.telling import TOLD_OF_RULE, are_told, incident_of, part_of
from services.watchdog.incidents import Incidents
from services.watchdog.rulebooks import Rulebooks
from services.watchdog.watched import Watched, WatchedJobs
from shared.bus import Bus, BusUnavailableError
from shared.bus.deadletters import DeadLetter, bury
from shared.bus.feed import BATCH_MESSAGES, Feed
from shared.bus.streams import Reaction
from shared.clock import Clock
from shared.events import ReplicaRef as EventReplica
from shared.logs_wire import Chunk, MalformedChunkError, ReplicaRef, decode_chunk

GAP_TRIES: Final = 25
NEARLY_FULL: Final = 0.95
_TRIED_MAX: Final = 10_000
_GAP_PAUSE_S: Final = 0.5
_TROUBLE_PAUSE_S: Final = 1.0
_LOOK_S: Final = 0.25


@dataclass(slots=True)
class _Batch:
    """What a batch of messages has changed so far."""

    scans: dict[ReplicaRef, Scan] = field(default_factory=dict)
    found: list[tuple[AttemptKey, Noticed]] = field(default_factory=list)
    outputs: dict[AttemptKey, datetime] = field(default_factory=dict)
    settled: list[Msg] = field(default_factory=list)
    taken: int = 0

    def rules_found(self, key: AttemptKey) -> Iterator[str]:
        """Rules that replicas of the attempt printed for the first time."""
        seen = {(each.rule, each.replica.role, each.replica.index) for attempt, each in self.found if attempt == key}
        return (rule for rule, _role, _index in seen)

    def note_output(self, key: AttemptKey, at: datetime) -> None:
        self.outputs[key] = max(self.outputs.get(key, at), at)


@dataclass(frozen=True, slots=True)
class Reading:
    """What all partitions are read with."""

    watched: WatchedJobs
    rulebooks: Rulebooks
    memory: Memory
    incidents: Incidents
    clocks: Clocks


class PartitionScanner:
    """Reads the logs of one partition."""

    def __init__(self, bus: Bus, reaction: Reaction, reading: Reading, clock: Clock) -> None:
        self._bus = bus
        self._reaction = reaction
        self._feed = Feed(bus, reaction)
        self._reading = reading
        self._watched = reading.watched
        self._rulebooks = reading.rulebooks
        self._memory = reading.memory
        self._incidents = reading.incidents
        self._clocks = reading.clocks
        self._tried = _Tried()
        self._clock = clock
        self._log = structlog.get_logger(service="watchdog", consumer=reaction.durable)
        self._waiting: list[asyncio.Future[None]] = []
        self._read_until: datetime | None = None
        self.newest = 0
        """Sequence of the newest message that was read."""
        self.caught_up = False
        """Whether all that waited when reading began has been read."""

    async def run(self) -> None:
        """Read until cancelled."""
        await self._feed.open()
        try:
            while True:
                await self._take_or_pause(await self._feed.batch())
        finally:
            # Else the first chunks of what comes next would be sent here, and all others be put back as behind a gap.
            await self._feed.close()

    async def _take_or_pause(self, messages: Sequence[Msg]) -> None:
        try:
            await self._take(messages)
        except sqlite3.Error as error:
            # Nothing was acknowledged, so all of it comes again.
            self._log.error("batch_not_kept", reason=str(error))
            await self._clock.sleep(_TROUBLE_PAUSE_S)
        except (BusUnavailableError, NatsError, APIError, OSError) as error:
            self._log.warning("batch_interrupted", reason=str(error) or type(error).__name__)
            await self._clock.sleep(_TROUBLE_PAUSE_S)

    async def watch_backlog(self) -> None:
        """Return when everything has been read that was there at the start."""
        last: int | None = None
        while True:
            try:
                if last is None:
                    last = (await self._bus.js.stream_info(self._reaction.stream)).state.last_seq
                info = await self._bus.js.consumer_info(self._reaction.stream, self._reaction.durable)
            except (NatsError, APIError, OSError):
                await self._clock.sleep(_TROUBLE_PAUSE_S)
                continue
            floor = info.ack_floor.stream_seq if info.ack_floor else 0
            if floor >= last or not (info.num_pending or info.num_ack_pending):
                self.caught_up = True
                self._announce()
                return
            await self._clock.sleep(_LOOK_S)

    async def has_heard_until(self, at: datetime) -> bool:
        """Whether everything that replicas wrote up to this time has been read.

        It has where something later was read, or nothing waits; and not where the stream is nearly full, since it then
        refuses what agents would ship.
        """
        try:
            stream = await self._bus.js.stream_info(self._reaction.stream)
            info = await self._bus.js.consumer_info(self._reaction.stream, self._reaction.durable)
        except (NatsError, APIError, OSError):
            return False
        limit = stream.config.max_bytes or 0
        if limit > 0 and stream.state.bytes > limit * NEARLY_FULL:
            return False
        nothing_waits = not info.num_pending and not info.num_ack_pending
        return nothing_waits or (self._read_until is not None and self._read_until >= at)

    def next_change(self) -> asyncio.Future[None]:
        """Done when something more has been read."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        return change

    def _announce(self) -> None:
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)

    async def _take(self, messages: Sequence[Msg]) -> None:
        batch = _Batch()
        while messages:
            await self._take_in(batch, messages)
            messages = await self._feed.more() if batch.taken < BATCH_MESSAGES else ()
        if batch.scans or batch.outputs:
            self._memory.commit(Changes(batch.scans, tuple(batch.found), batch.outputs))
            self._announce()
        for message in batch.settled:
            await message.ack()
            self._read_until = max(self._read_until or message.metadata.timestamp, message.metadata.timestamp)
            self.newest = max(self.newest, message.metadata.sequence.stream)

    async def _take_in(self, batch: _Batch, messages: Sequence[Msg]) -> None:
        batch.taken += len(messages)
        for message in messages:
            try:
                await self._take_message(batch, message)
            except (sqlite3.Error, BusUnavailableError, NatsError, APIError, OSError):
                raise
            except Exception as error:  # noqa: BLE001  # one chunk that cannot be read must not hold the others up
                await self._bury(message, error)
                batch.settled.append(message)

    async def _take_message(self, batch: _Batch, message: Msg) -> None:
        try:
            chunk = decode_chunk(message.subject, message.headers, message.data)
        except MalformedChunkError:
            # `logs`, which has the same message, keeps it as a dead letter.
            batch.settled.append(message)
            return
        watched = await self._watched.find(chunk.file.replica.job) if chunk.file.kind == "log" else None
        if watched is None or await self._read(batch, message, chunk, watched):
            batch.settled.append(message)
        else:
            await message.nak(delay=_GAP_PAUSE_S)

    async def _bury(self, message: Msg, error: Exception) -> None:
        self._log.exception("chunk_not_read", subject=message.subject)
        sequence = message.metadata.sequence.stream
        reason, stream = type(error).__name__, self._reaction.stream
        letter = DeadLetter("watchdog", reason, str(error), stream, sequence, message.subject, message.data)
        await bury(self._bus.js, letter)

    async def _read(self, batch: _Batch, message: Msg, chunk: Chunk, watched: Watched) -> bool:
        """Read on with the chunk; false where bytes before it are missing."""
        replica = chunk.file.replica
        scan = batch.scans.get(replica) or self._memory.scan(replica)
        over_gap = (message.metadata.num_delivered or 0) >= GAP_TRIES
        at = message.metadata.timestamp
        rules = await self._rulebooks.of(watched.terms)
        scanned = take(scan, self._on_time(chunk, at), rules, over_gap=over_gap)
        if scanned.gap:
            return False
        if scanned.scan == scan:
            return True
        if scanned.hits:
            await self._note(batch, watched, replica, scanned.hits, at)
        if chunk.data:
            batch.note_output((replica.job, replica.attempt), at)
        batch.scans[replica] = scanned.scan
        return True

    def _on_time(self, chunk: Chunk, arrived_at: datetime) -> Chunk:
        """The chunk with its times by the clock of the stream."""
        if not chunk.times:
            return chunk
        self._clocks.note(chunk.node, chunk.times[-1][1], int(arrived_at.timestamp() * 1000))
        times = tuple((offset, self._clocks.corrected_ms(chunk.node, millis)) for offset, millis in chunk.times)
        return replace(chunk, times=times)

    async def _note(
        self, batch: _Batch, watched: Watched, replica: ReplicaRef, hits: Sequence[Hit], at: datetime
    ) -> None:
        key, ref = (replica.job, replica.attempt), EventReplica(role=replica.role, index=replica.index)
        earlier = (*self._memory.rules_found(*key), *batch.rules_found(key))
        known, tried = self._rulebooks.catalogue.rules, self._rulebooks.shadow
        await self._note_tried(watched, replica, [hit for hit in hits if hit.rule in tried], at)
        hits = [hit for hit in hits if hit.rule not in tried]
        for hit in are_told(hits, earlier, known):
            incident = incident_of(hit, ref, at, known.get(hit.rule))
            await self._incidents.put(watched.job, replica.attempt, incident, part_of(hit, ref))
        arrived_ms = int(at.timestamp() * 1000)
        for hit in hits:
            at_ms = arrived_ms if hit.at_ms is None else hit.at_ms
            batch.found.append((key, Noticed(hit.rule, ref, Sighting(hit.line, at_ms, hit.offset))))

    async def _note_tried(self, watched: Watched, replica: ReplicaRef, hits: Sequence[Hit], at: datetime) -> None:
        """Put down what rules in shadow mode have found, of a few replicas each."""
        ref = EventReplica(role=replica.role, index=replica.index)
        for hit in hits:
            rule = self._rulebooks.shadow.get(hit.rule)
            if rule is not None and not hit.again and self._tried.is_told(hit.rule, replica):
                incident = incident_of(hit, ref, at, rule, shadow=True)
                await self._incidents.put(watched.job, replica.attempt, incident, part_of(hit, ref))


class _Tried:
    """How many finds of each rule in shadow mode were put down of an attempt; the oldest attempts are forgotten."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, str, int], set[tuple[str, int]]] = OrderedDict()

    def is_told(self, rule: str, replica: ReplicaRef) -> bool:
        """Whether a find in this replica is put down, after those before it."""
        told = self._told.setdefault((rule, replica.job, replica.attempt), set())
        self._told.move_to_end((rule, replica.job, replica.attempt))
        while len(self._told) > _TRIED_MAX:
            self._told.popitem(last=False)
        if len(told) < TOLD_OF_RULE:
            told.add((replica.role, replica.index))
        return (replica.role, replica.index) in told
