"""The catalog as a value in memory: look-ups by kind and name over everything that the bucket holds.

It is changed only by `apply`, which takes over one message of the bucket, so whoever holds it sees one consistent state
between two awaits. Keys that were deleted keep their revision, which a writer of the same name has to expect.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import structlog
from pydantic import ValidationError

from shared.catalog.base import CatalogDocument
from shared.catalog.kinds import KINDS

DocumentT = TypeVar("DocumentT", bound=CatalogDocument)


@dataclass(frozen=True, slots=True)
class Entry(Generic[DocumentT]):
    """A document and the revision of the bucket that it has; the ETag of a catalog document is this revision."""

    document: DocumentT
    revision: int

    def shown(self) -> dict[str, Any]:
        """The JSON document with its id and sequence, as the API gives it."""
        document = self.document.document()
        document["metadata"] |= {"id": self.document.id, "sequence": self.revision}
        return document


class Catalog:
    """All catalog documents of the common kinds, and of those `own` kinds that only one service knows."""

    def __init__(self, own: Iterable[type[CatalogDocument]] = ()) -> None:
        self._kinds = {kind.SINGULAR: kind for kind in (*KINDS, *own)}
        self._entries: dict[str, dict[str, Entry[Any]]] = {kind: {} for kind in self._kinds}
        self._revisions: dict[str, int] = {}

    def find(self, kind: type[DocumentT], name: str) -> Entry[DocumentT] | None:
        """The document of this kind with this name."""
        return cast("Entry[DocumentT] | None", self._entries[kind.SINGULAR].get(kind.key_of(name)))

    def get(self, kind: type[DocumentT], name: str) -> DocumentT | None:
        """As `find`, without the revision."""
        entry = self.find(kind, name)
        return entry.document if entry else None

    def entries(self, kind: type[DocumentT]) -> Iterator[Entry[DocumentT]]:
        """All documents of a kind, by name."""
        entries = self._entries[kind.SINGULAR].values()
        return iter(sorted(entries, key=lambda entry: entry.document.name))

    def all(self, kind: type[DocumentT]) -> Iterator[DocumentT]:
        """As `entries`, without the revisions."""
        return (entry.document for entry in self.entries(kind))

    def revision(self, kind: type[CatalogDocument], name: str) -> int:
        """Revision that a writer of this name has to expect, 0 where the name was never used."""
        return self._revisions.get(kind.key_of(name), 0)

    def apply(self, key: str, value: bytes | None, revision: int) -> None:
        """Take over what the bucket holds for a key; None means that it was deleted."""
        kind = key.partition(".")[0]
        if kind not in self._entries or revision <= self._revisions.get(key, 0):
            return
        self._revisions[key] = revision
        document = _read(self._kinds[kind], key, value) if value is not None else None
        if document is None:
            self._entries[kind].pop(key, None)
        else:
            self._entries[kind][key] = Entry(document, revision)


def _read(kind: type[CatalogDocument], key: str, value: bytes) -> CatalogDocument | None:
    """The document; None, and an error in the log, where this version cannot read it."""
    try:
        # A newer version may have added keys.
        return kind.model_validate(json.loads(value), extra="ignore")
    except (ValueError, ValidationError) as error:
        structlog.get_logger().error("catalog_document_unreadable", key=key, error=str(error))
        return None
