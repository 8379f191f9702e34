"""Read, decide, write: how a service changes a catalog document while others may be changing it too.

The decision is a function of the catalog as it is at this moment. Where somebody else wrote the document in between,
the catalog is read again and the decision is made anew, at most ten times; with `if_match` the caller has decided for
one version alone, and any other is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic

from shared.bus import ConcurrentWriteError
from shared.catalog.base import CatalogDocument
from shared.catalog.store import CatalogStore
from shared.catalog.view import Catalog, DocumentT, Entry
from shared.catalog.watch import CatalogWatch
from shared.errors import ConflictError, NotFoundError
from shared.http.etag import check_if_match

MAX_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Written(Generic[DocumentT]):
    """A document that is kept now, what was there before, and whether the name is new."""

    entry: Entry[DocumentT]
    before: DocumentT | None

    @property
    def created(self) -> bool:
        """Whether nothing had this name before."""
        return self.before is None


class CatalogWriter:
    """Puts and deletes documents by the rules of the service that owns their kind."""

    def __init__(self, store: CatalogStore, watch: CatalogWatch) -> None:
        self._store = store
        self._watch = watch

    async def put(
        self,
        kind: type[DocumentT],
        name: str,
        make: Callable[[Catalog, Entry[DocumentT] | None], DocumentT],
        *,
        if_match: int | None = None,
        anew: bool = False,
    ) -> Written[DocumentT]:
        """Keep what `make` gives; a document that says the same as the one before is written again only if `anew`."""
        for _ in range(MAX_TRIES):
            catalog = await self._watch.refresh()
            before = catalog.find(kind, name)
            check_if_match(if_match, before.revision if before else 0)
            document = make(catalog, before)
            if before is not None and not anew and document.spec == before.document.spec:
                return Written(before, before.document)
            try:
                entry = await self._store.put(document, expected=catalog.revision(kind, name))
            except ConcurrentWriteError:
                continue
            await self._watch.refresh()
            return Written(entry, before.document if before else None)
        raise _contended(kind, name)

    async def delete(
        self,
        kind: type[DocumentT],
        name: str,
        check: Callable[[Catalog, Entry[DocumentT]], None],
        *,
        if_match: int | None = None,
    ) -> None:
        """Remove the document unless `check` raises; raises NotFoundError where there is none."""
        for _ in range(MAX_TRIES):
            catalog = await self._watch.refresh()
            entry = catalog.find(kind, name)
            if entry is None:
                raise NotFoundError(kind.SINGULAR, name)
            check_if_match(if_match, entry.revision)
            check(catalog, entry)
            try:
                await self._store.delete(kind, name, expected=entry.revision)
            except ConcurrentWriteError:
                continue
            await self._watch.refresh()
            return
        raise _contended(kind, name)


def _contended(kind: type[CatalogDocument], name: str) -> ConflictError:
    return ConflictError(f"the {kind.SINGULAR} {name!r} was changed {MAX_TRIES} times in between; try again")
