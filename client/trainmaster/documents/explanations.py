"""Why a job waits, as `/v1/queue/{job}` says."""

from __future__ import annotations

from dataclasses import dataclass

from trainmaster.decoding import Document, Fields


@dataclass(frozen=True, slots=True)
class Blocker:
    """One resource that a waiting job lacks; amounts are millicores, bytes or counts, as the resource has it."""

    role: str
    resource: str
    needed: int
    available: int
    total: int
    detail: str

    @classmethod
    def of(cls, fields: Fields) -> Blocker:
        """One entry of an explanation's blockers."""
        needed, available, total = (fields.integer(name) for name in ("needed", "available", "total"))
        return cls(fields.text("role"), fields.text("resource"), needed, available, total, fields.text("detail"))


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is not running, and what would help."""

    job: str
    state: str
    position: int | None
    summary: str
    blockers: tuple[Blocker, ...]
    suggestions: tuple[str, ...]
    document: Document

    @classmethod
    def of(cls, document: Document) -> Explanation:
        """The explanation that `/v1/queue/{job}` gives."""
        fields = Fields.of(document)
        return cls(
            job=fields.text("job"),
            state=fields.text("state"),
            position=fields.optional_integer("position"),
            summary=fields.text("summary"),
            blockers=tuple(map(Blocker.of, fields.each("blockers"))),
            suggestions=fields.texts("suggestions"),
            document=document,
        )
