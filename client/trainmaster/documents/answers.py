"""What lists, applied documents and uploads answer."""

from __future__ import annotations

from dataclasses import dataclass

from trainmaster.decoding import Document, Fields


@dataclass(frozen=True, slots=True)
class Page:
    """Some documents of a list; `cursor` leads to the next ones."""

    items: tuple[Document, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Applied:
    """A document that the platform took; `created` tells a new thing from a changed one."""

    kind: str
    name: str
    created: bool
    document: Document

    @property
    def id(self) -> str:
        """The id that the platform gave it."""
        return Fields.of(self.document).fields("metadata").text("id")


@dataclass(frozen=True, slots=True)
class Upload:
    """An archive that the platform keeps."""

    digest: str
    size_bytes: int
