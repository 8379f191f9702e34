"""One watch: what it sends, from which revision on, and how it ends.

A watch has a cursor, the revision up to which it has told everything, and reads on from the kept changes whenever the
store beats. With a selector an object that begins to match is ADDED for this watch, and one that no longer matches is
DELETED. A bookmark tells the cursor without an object.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from tests.support.kubernetes.errors import ApiError, expired
from tests.support.kubernetes.faults import Faults
from tests.support.kubernetes.resources import Json, Resource
from tests.support.kubernetes.selectors import Selector
from tests.support.kubernetes.store import Change, Store

BOOKMARK_BEFORE_END_S = 2.0
INITIAL_END = "k8s.io/initial-events-end"


class WatchCutError(Exception):
    """The connection is to be broken, after these bytes."""

    def __init__(self, last_bytes: bytes):
        super().__init__()
        self.last_bytes = last_bytes


@dataclass(frozen=True)
class WatchQuery:
    """What the client asks for."""

    resource: Resource
    selector: Selector
    from_revision: int | None
    """`None` for the present state first."""
    timeout_s: float
    bookmarks: bool = False
    initial_events: bool = False


class Watch:
    """The events of one watch, as the lines of its answer."""

    def __init__(
        self, store: Store, faults: Faults, query: WatchQuery, *, bookmark_interval_s: float, clock: Callable[[], float]
    ):
        self._store, self._faults, self._query = store, faults, query
        self._clock = clock
        self._interval_s = bookmark_interval_s
        self._end = clock() + query.timeout_s
        self._cuts, self._expiries, self._losses = faults.cuts, faults.expiries, faults.losses
        self._cursor = store.revision if query.from_revision is None else query.from_revision
        self._bookmark_at = min(clock() + bookmark_interval_s, max(clock(), self._end - BOOKMARK_BEFORE_END_S))

    def start_error(self) -> ApiError | None:
        """The refusal, where the wanted revision is forgotten."""
        wanted = self._query.from_revision
        return self._too_old() if wanted is not None and wanted < self._store.compacted else None

    async def lines(self) -> AsyncIterator[bytes]:
        if (error := self.start_error()) is not None:
            yield _line("ERROR", error.status())
            return
        for line in self._initial():
            yield line
        while self._clock() < self._end:
            self._check_cut()
            if self._expiries != self._faults.expiries:
                yield _line("ERROR", self._too_old().status())
                return
            wake_at = self._end
            if not self._faults.silent and self._losses == self._faults.losses:
                for line in self._due():
                    yield line
                wake_at = min(self._bookmark_at, self._end)
            await self._store.pulse.wait(max(0.0, wake_at - self._clock()))

    def _initial(self) -> list[bytes]:
        if self._query.from_revision is not None:
            return []
        matching = [item for item in self._store.items(self._query.resource) if self._query.selector.matches(item)]
        lines = [_line("ADDED", item) for item in matching]
        return [*lines, self._bookmark({INITIAL_END: "true"})] if self._query.initial_events else lines

    def _due(self) -> list[bytes]:
        changes = self._store.changes_after(self._query.resource, self._cursor)
        lines = [line for change in changes if (line := self._told(change)) is not None]
        self._cursor = self._store.revision
        if self._bookmark_at <= self._clock():
            self._bookmark_at = self._next_bookmark()
            if self._query.bookmarks:
                lines.append(self._bookmark())
        if lines and self._cuts != self._faults.cuts and self._faults.cut_mid_event:
            raise WatchCutError(b"".join(lines[:-1]) + lines[-1][: len(lines[-1]) // 2])
        return lines

    def _told(self, change: Change) -> bytes | None:
        matched = self._query.selector.matches
        was = change.before is not None and matched(change.before)
        now = change.type != "DELETED" and matched(change.item)
        if was and now:
            return _line("MODIFIED", change.item)
        if now:
            return _line("ADDED", change.item)
        if not was:
            return None
        # What no longer matches is shown as it was when it did, with the revision of the change.
        assert change.before is not None
        metadata = {**change.before["metadata"], "resourceVersion": str(change.revision)}
        return _line("DELETED", {**change.before, "metadata": metadata})

    def _check_cut(self) -> None:
        if self._cuts != self._faults.cuts and not self._faults.cut_mid_event:
            raise WatchCutError(b"")

    def _next_bookmark(self) -> float:
        before_end = self._end - BOOKMARK_BEFORE_END_S
        now = self._clock()
        return min(now + self._interval_s, before_end) if now < before_end else self._end

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        resource = self._query.resource
        metadata: Json = {"resourceVersion": str(self._cursor), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        return _line("BOOKMARK", {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})

    def _too_old(self) -> ApiError:
        return expired(f"too old resource version: {self._cursor} ({self._store.compacted + 1})")


def _line(kind: str, item: Json) -> bytes:
    return json.dumps({"type": kind, "object": item}, separators=(",", ":")).encode() + b"\n"
