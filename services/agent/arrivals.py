"""What comes in from NATS, taken to the file that it is for, and the lanes that have something to do then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from services.agent.gangs import Gangs
from services.agent.link import Refusal
from services.agent.replica import Replica
from shared.logs_wire import Kept, Kind, ReplicaRef

_log = logging.getLogger(__name__)


class Arrivals:
    """Listens to the link; `wake` has an event for each lane."""

    def __init__(self, gangs: Gangs, now: Callable[[], float]) -> None:
        self._gangs = gangs
        self._now = now
        self._last_reason = ""
        log = asyncio.Event()
        self.wake: dict[Kind, asyncio.Event] = {"log": log, "use": log, "tb": asyncio.Event()}

    def on_kept(self, kept: Kept) -> None:
        """Move the file's offsets; announcements for other machines' replicas are none of our business."""
        replica = self._replica(kept.file.replica)
        file = replica.files.get(kept.file) if replica else None
        if file is not None:
            file.tail.announced(kept, self._now())
            self.wake[kept.file.kind].set()

    def on_refused(self, refusal: Refusal) -> None:
        """Let the file wait and send again from there."""
        replica = self._replica(refusal.replica)
        file = replica.numbered(refusal.file) if replica else None
        if file is not None and file.tail.generation == refusal.generation:
            file.tail.offsets.refused(refusal.offset, self._now())
        if refusal.reason != self._last_reason:
            _log.warning("chunks are refused, the files wait: %s", refusal.reason)
            self._last_reason = refusal.reason

    def on_connection(self, *, connected: bool) -> None:
        """Send again what may have been lost with the old connection, as soon as there is a new one."""
        _log.info("connected to nats" if connected else "disconnected from nats")
        self._last_reason = ""
        for replica in self._gangs.replicas.values():
            for file in replica.files.values():
                file.tail.offsets.disconnected()
        self.wake_all()

    def wake_all(self) -> None:
        """Let every lane look."""
        for event in self.wake.values():
            event.set()

    def _replica(self, ref: ReplicaRef) -> Replica | None:
        return self._gangs.find(ref)
