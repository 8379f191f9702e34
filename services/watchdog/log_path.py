"""Whether what replicas write reaches this watchdog now: from their files by the agents, by the stream, to a scanner.

Nothing says that an agent is there, so the first chunk that an agent has put into the stream since this watchdog was
connected is taken as the sign of it: an agent that comes (back) sends at once whatever is not kept. Chunks that were in
the stream before are no sign; they may be all that is left of an agent that is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from nats.errors import Error as NatsError
from nats.js.errors import APIError

from services.watchdog.scanning import PartitionScanner
from shared.bus import Bus
from shared.bus.streams import LOGS
from shared.clock import Clock

LAG_S: Final = 0.5


class LogPath:
    """The way that logs take, as seen from its end."""

    def __init__(self, bus: Bus, scanners: Sequence[PartitionScanner], clock: Clock) -> None:
        self._bus = bus
        self._scanners = scanners
        self._clock = clock
        self._connection: int | None = None
        self._old_until = 0

    @property
    def is_connected(self) -> bool:
        """Whether NATS is there; without it nothing can be decided either."""
        return self._bus.client.is_connected

    async def is_open(self, scanner: PartitionScanner) -> bool:
        """Whether agents ship, and the scanner has read what they have shipped."""
        ships = await self.note_connection() and any(each.newest > self._old_until for each in self._scanners)
        return ships and await scanner.has_heard_until(self._clock.now() - timedelta(seconds=LAG_S))

    async def note_connection(self) -> bool:
        """Take note of what was in the stream when the present connection was made; false where that cannot be had."""
        connection = self._bus.client.stats["reconnects"]
        if connection != self._connection:
            try:
                self._old_until = (await self._bus.js.stream_info(LOGS)).state.last_seq
            except (NatsError, APIError, OSError):
                return False
            self._connection = connection
        return True
