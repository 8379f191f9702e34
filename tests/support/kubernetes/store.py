"""What the server knows: objects under one global revision, and the changes that led there.

Objects are never altered, only replaced: so a list is a snapshot that stays as it was while the world goes on, and
what a watch sends is what was true at that revision. `compact` forgets the changes and the kept snapshots, as etcd's
compaction does: who asks for older ones afterwards is told that they expired.
"""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tests.support.kubernetes.resources import Json, Resource

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Name = tuple[str, str]
"""Namespace ("" where the kind has none) and name."""


@dataclass(frozen=True)
class Change:
    """One write, with the object as it was before."""

    revision: int
    type: ChangeType
    item: Json
    before: Json | None = None


class Pulse:
    """Wakes everybody who waits for something to change."""

    def __init__(self) -> None:
        self._next: asyncio.Future[None] | None = None

    def beat(self) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        self._next = None

    async def wait(self, timeout_s: float | None) -> None:
        """Until the next beat, or the time is over."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._next], timeout=timeout_s)


class Store:
    """All objects, by kind."""

    def __init__(self) -> None:
        self.revision = 1
        self.compacted = 0
        self.pulse = Pulse()
        self._items: defaultdict[Resource, dict[Name, Json]] = defaultdict(dict)
        self._changes: defaultdict[Resource, list[Change]] = defaultdict(list)
        self._snapshots: dict[int, list[Json]] = {}
        self._snapshot_numbers = itertools.count()
        self.uids: set[str] = set()
        self.on_change: Callable[[Change], None] = lambda change: None

    def get(self, resource: Resource, name: Name) -> Json | None:
        return self._items[resource].get(name)

    def items(self, resource: Resource) -> list[Json]:
        """In the order of namespace and name, as etcd keeps them."""
        held = self._items[resource]
        return [held[name] for name in sorted(held)]

    def everything(self) -> Iterator[tuple[Resource, Json]]:
        for resource, held in list(self._items.items()):
            for item in list(held.values()):
                yield resource, item

    def put(self, resource: Resource, item: Json) -> Json:
        """Write an object; the returned one carries its new revision."""
        name = name_of(item)
        before = self._items[resource].get(name)
        written = self._stamped(item)
        self._items[resource][name] = written
        self.uids.add(written["metadata"]["uid"])
        self._note(resource, Change(self.revision, "MODIFIED" if before else "ADDED", written, before))
        return written

    def remove(self, resource: Resource, name: Name) -> Json:
        """Take an object out; the returned one carries the revision of its end."""
        before = self._items[resource].pop(name)
        self.uids.discard(before["metadata"]["uid"])
        gone = self._stamped(before)
        self._note(resource, Change(self.revision, "DELETED", gone, before))
        return gone

    def changes_after(self, resource: Resource, revision: int) -> list[Change]:
        changes = self._changes[resource]
        return changes[bisect_right(changes, revision, key=lambda change: change.revision) :]

    def keep_snapshot(self, items: list[Json]) -> int:
        """Keep what later pages of a list are read from; returns its number."""
        number = next(self._snapshot_numbers)
        self._snapshots[number] = items
        return number

    def snapshot(self, number: int) -> list[Json] | None:
        """What was kept, unless it was compacted away."""
        return self._snapshots.get(number)

    def compact(self) -> None:
        self.compacted = self.revision
        self._changes.clear()
        self._snapshots.clear()

    def _stamped(self, item: Json) -> Json:
        self.revision += 1
        return {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.revision)}}

    def _note(self, resource: Resource, change: Change) -> None:
        self._changes[resource].append(change)
        self.on_change(change)
        self.pulse.beat()


def name_of(item: Json) -> Name:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
