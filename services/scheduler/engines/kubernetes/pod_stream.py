"""Our pods as a collection, whose watch leaves out gangs that are being made, and catches up with them afterwards.

When a large gang begins to be made the stream is cut, and goes on from the same version with a selector that excludes
the gang's pods. Once the gang is made the stream is cut again, and goes on without the exclusion from the version at
which that began: the server then sends what was left out, and once more what others did meanwhile. So it is remembered
up to which version everything was told: of a gang that was left out one of its own, of all others the highest that was
seen. An event that is not newer was told, and only shows that the stream is alive; what is told of a pod is thus
complete and in order. A stream is in order, too, so that one that breaks on the way, as a busy server ends those that
are read too slowly, is followed by one that is further on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from services.scheduler.engines.kubernetes.making import Making
from shared.ids import GangId
from shared.kubernetes.access import JsonLines
from shared.kubernetes.documents import Json
from shared.kubernetes.names import GANG_LABEL
from shared.kubernetes.watch import ApiCollection, Events

_BOOKMARK: Final = "BOOKMARK"
_ERROR: Final = "ERROR"
_NO_NEWS: Final[Json] = {"type": _BOOKMARK, "object": {}}


class PodStream:
    """Our pods; `announce` is called before they are listed."""

    def __init__(self, pods: ApiCollection, making: Making, announce: Callable[[], None]) -> None:
        self._pods = pods
        self._making = making
        self._announce = announce
        self._told = 0
        self._told_of: dict[GangId, int] = {}
        self._left_out: frozenset[GangId] = frozenset()

    async def page(self, after: str) -> Json:
        """A page of the list, in which all gangs are."""
        if not after:
            self._announce()
        page = await self._pods.page(after)
        metadata = page.get("metadata") or {}
        if not metadata.get("continue"):
            self._told, self._told_of = int(metadata.get("resourceVersion") or 0), {}
        return page

    async def changes(self, version: str) -> Events:
        """Everything that was not told yet: what follows the version, and what was left out before."""
        self._told = max(self._told, int(version or 0))
        return self._events(await self._open())

    async def _open(self) -> JsonLines:
        """Go on from where something is missing that is to be told now."""
        left_out = self._making.gangs
        since = min([self._told, *(told for gang, told in self._told_of.items() if gang not in left_out)])
        labels = f"{GANG_LABEL} notin ({','.join(sorted(left_out))})" if left_out else ""
        stream = await self._pods.watch(str(since), labels=labels)
        self._told_of = {**dict.fromkeys(left_out, self._told), **self._told_of}
        self._left_out = left_out
        return stream

    async def _events(self, stream: JsonLines) -> AsyncGenerator[Json, None]:
        """What each stream says that is news; one that was cut is followed by the next."""
        while True:
            unlisten = self._making.listen(stream.cut)
            if self._making.gangs != self._left_out:
                stream.cut()
            try:
                async with aclosing(stream):
                    async for event in stream:
                        yield event if self._is_news(event) else _NO_NEWS
            finally:
                unlisten()
            if not stream.is_cut:
                return
            stream = await self._open()

    def _is_news(self, event: Json) -> bool:
        if event.get("type") == _ERROR:
            return True
        metadata = event["object"]["metadata"]
        version, gang = int(metadata["resourceVersion"]), (metadata.get("labels") or {}).get(GANG_LABEL, "")
        is_news = event["type"] == _BOOKMARK or version > self._told_of.get(gang, self._told)
        self._go_on_to(version)
        return is_news

    def _go_on_to(self, version: int) -> None:
        """Of gangs that are in the stream nothing is missing up to here; past all that was told, nothing at all."""
        if version > self._told:
            self._told = version
            self._told_of = {gang: told for gang, told in self._told_of.items() if gang in self._left_out}
            return
        for gang in self._told_of.keys() - self._left_out:
            self._told_of[gang] = max(self._told_of[gang], version)
