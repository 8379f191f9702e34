"""List, then watch: what a collection of the API server holds, and every change of it, as one endless iterator.

`follow` first lists (in pages), gives `Listed` with everything there is, and then watches from that version on. Where
the connection is cut, in the middle of an event, too, it watches on from the last version that it has seen, which the
server's bookmarks keep young. A version that the server has forgotten (410, as an answer or within the stream) means
listing anew: the next `Listed` says what is there now, and whoever follows compares it with what he knew.

A stream in which nothing moves for `SILENCE_S` is taken for dead, since the server sends bookmarks about once a minute.
While the server cannot be reached, or refuses, one `Unreachable` says why, and trying goes on with growing pauses. The
next `Listed`, or `Watching` where no list was needed, says that it is over.

Objects are parsed as they come, so that no more of them is held than who follows wants.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from shared.clock import Clock
from shared.errors import UnavailableError
from shared.kubernetes.access import ApiError, JsonLines, KubernetesApi
from shared.kubernetes.documents import Json

PAGE: Final = 500
SILENCE_S: Final = 150.0
STREAM_S: Final = 600
PAUSE_S: Final = 0.5
PAUSE_MAX_S: Final = 20.0
GONE: Final = 410

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """Everything there is."""

    objects: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """An object that is new or has changed."""

    object: T


@dataclass(frozen=True, slots=True)
class Gone(Generic[T]):
    """An object that was deleted, as it was at last."""

    object: T


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Nothing is learned now."""

    reason: str


@dataclass(frozen=True, slots=True)
class Watching:
    """The server is there again, and nothing was missed."""


Told = Listed[T] | Changed[T] | Gone[T] | Unreachable | Watching


class Events(Protocol):
    """Watch events, until the server ends them."""

    def __aiter__(self) -> AsyncIterator[Json]:
        """One after the other."""
        ...

    async def aclose(self) -> None:
        """Let go of them."""
        ...


class Collection(Protocol):
    """What can be listed and watched."""

    async def page(self, after: str) -> Json:
        """A page of the list; `after` continues it. Raises ApiError or UnavailableError."""
        ...

    async def changes(self, version: str) -> Events:
        """Watch events since a version, until the server ends them; raises ApiError or UnavailableError.

        It returns once the server has agreed.
        """
        ...


class ApiCollection:
    """A collection at a path of an API server, such as `/api/v1/pods`; a stream that is silent so long is dead."""

    def __init__(
        self, api: KubernetesApi, path: str, *, labels: str = "", fields: str = "", silence_s: float = SILENCE_S
    ) -> None:
        self._api = api
        self._silence_s = silence_s
        self._path = path
        chosen = {"labelSelector": labels, "fieldSelector": fields}
        self._chosen = {name: value for name, value in chosen.items() if value}

    async def page(self, after: str) -> Json:
        query = {**self._chosen, "limit": PAGE, **({"continue": after} if after else {})}
        return await self._api.request("GET", self._path, query=query)

    async def changes(self, version: str) -> Events:
        return await self.watch(version)

    async def watch(self, version: str, *, labels: str = "") -> JsonLines:
        """As `changes`, as a stream that can be cut; of objects that have these labels too."""
        chosen = ",".join(filter(None, (self._chosen.get("labelSelector"), labels)))
        query = {
            **self._chosen,
            **({"labelSelector": chosen} if chosen else {}),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": STREAM_S,
        }
        return await self._api.lines(self._path, query=query, silence_s=self._silence_s)


async def follow(collection: Collection, parse: Callable[[Json], T], clock: Clock) -> AsyncGenerator[Told[T], None]:
    """Everything, then every change, without end."""
    follower = _Follower(collection, parse)
    while True:
        try:
            async with aclosing(follower.stretch()) as stretch:
                async for news in stretch:
                    yield news
        except (ApiError, UnavailableError) as error:
            follower.failures += 1
            if follower.failures > 1 and follower.trouble != error.message:
                follower.trouble = error.message
                yield Unreachable(error.message)
        if follower.failures:
            await clock.sleep(min(PAUSE_MAX_S, PAUSE_S * 2.0 ** min(follower.failures - 1, 10)))


class _Follower(Generic[T]):
    """What must be known between two stretches: the version, and what went wrong since something went well."""

    def __init__(self, collection: Collection, parse: Callable[[Json], T]) -> None:
        self._collection = collection
        self._parse = parse
        self._version = ""
        self.failures = 0
        self.trouble = ""

    async def stretch(self) -> AsyncGenerator[Told[T], None]:
        """List where that is needed, and watch until the stream ends; one without any event counts as a failure.

        A version that is forgotten as soon as it was listed counts as one, too; an old one is simply listed anew.
        """
        fresh = not self._version
        if fresh:
            listed = await self._list()
            self.trouble = ""
            yield listed
        moved = False
        try:
            async with aclosing(await self._collection.changes(self._version)) as stream:
                if self.trouble:
                    self.trouble = ""
                    yield Watching()
                async for event in stream:
                    news = self._take(event)
                    moved, self.failures = True, 0
                    if news is not None:
                        yield news
                self.failures += not moved
        except ApiError as error:
            if error.status != GONE:
                raise
            self._version = ""
            self.failures += fresh and not moved

    async def _list(self) -> Listed[T]:
        objects: list[T] = []
        after = ""
        while True:
            page = await self._collection.page(after)
            objects += [self._parse(item) for item in page.get("items") or ()]
            metadata = page.get("metadata") or {}
            after = str(metadata.get("continue") or "")
            if not after:
                self._version = str(metadata.get("resourceVersion") or "")
                return Listed(tuple(objects))

    def _take(self, event: Json) -> Told[T] | None:
        """What an event says; raises ApiError where it is one."""
        kind, told = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            self._version = ""
            raise ApiError(int(told.get("code") or 0), str(told.get("reason") or ""), str(told.get("message") or ""))
        self._version = str(told.get("metadata", {}).get("resourceVersion") or self._version)
        if kind == "DELETED":
            return Gone(self._parse(told))
        return Changed(self._parse(told)) if kind in ("ADDED", "MODIFIED") else None
