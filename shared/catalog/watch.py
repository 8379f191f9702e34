"""A catalog that follows its bucket.

The bucket is a stream; the watch remembers the sequence up to which it has read and `refresh` reads what came behind
it, in one batched read. Nothing can be missed, and whoever must see the latest (a submission, right after somebody
applied a pool) simply calls `refresh` first. `run` refreshes when a change is announced on the bucket's own subjects
(a hint that may get lost) and every half minute regardless.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Final

import structlog
from nats.aio.msg import Msg

from shared.bus import Bus, BusUnavailableError
from shared.bus.history import sequence_of
from shared.bus.streams import CATALOG_BUCKET
from shared.catalog.base import CatalogDocument
from shared.catalog.view import Catalog
from shared.errors import UnavailableError

SUBJECT_PREFIX: Final = f"$KV.{CATALOG_BUCKET}."
STREAM: Final = f"KV_{CATALOG_BUCKET}"
REFRESH_S: Final = 30.0

Listener = Callable[[], None]


class CatalogWatch:
    """Keeps `view` up to date."""

    def __init__(self, bus: Bus, own_kinds: Iterable[type[CatalogDocument]] = ()) -> None:
        self._bus = bus
        self._sequence = 0
        self._reading = asyncio.Lock()
        self._hint = asyncio.Event()
        self._listeners: list[Listener] = []
        self.view = Catalog(own_kinds)
        self.loaded = asyncio.Event()

    def on_change(self, listener: Listener) -> None:
        """Call the listener whenever the view has changed."""
        self._listeners.append(listener)

    async def refresh(self) -> Catalog:
        """The view, with everything that was written before this call; raises BusUnavailableError."""
        async with self._reading:
            messages = await self._bus.history.messages(STREAM, f"{SUBJECT_PREFIX}>", after=self._sequence)
            for message in messages:
                self._take(message)
            self.loaded.set()
        if messages:
            for listener in self._listeners:
                listener()
        return self.view

    async def run(self) -> None:
        """Follow for ever."""
        log = structlog.get_logger(bucket=CATALOG_BUCKET)
        subscription = await self._bus.client.subscribe(f"{SUBJECT_PREFIX}>", cb=self._on_hint)
        try:
            while True:
                self._hint.clear()
                try:
                    await self.refresh()
                except BusUnavailableError as error:
                    log.warning("catalog_refresh_failed", reason=error.message)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REFRESH_S):
                        await self._hint.wait()
        finally:
            if self._bus.client.is_connected:
                await subscription.unsubscribe()

    async def check(self) -> str:
        """Readiness: whether the catalog was read once."""
        if not self.loaded.is_set():
            raise UnavailableError("the catalog is not loaded yet")
        return f"sequence {self._sequence}"

    async def _on_hint(self, _message: Msg) -> None:
        self._hint.set()

    def _take(self, message: Msg) -> None:
        headers = message.headers or {}
        self._sequence = sequence_of(message)
        key = headers["Nats-Subject"].removeprefix(SUBJECT_PREFIX)
        self.view.apply(key, None if "KV-Operation" in headers else message.data, self._sequence)
