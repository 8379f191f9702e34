"""One event of a job's history."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trainmaster.decoding import Document, Fields
from trainmaster.documents.jobs import ENDED_STATES

_VERSION: Final = re.compile(r"\.v[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One event of a job's history; `name` is its type without the dressing: `attempt.ended`."""

    sequence: int
    name: str
    time: datetime | None
    attempt: int
    data: Fields
    document: Document

    @classmethod
    def of(cls, document: Document, sequence: int | None = None) -> JobEvent:
        """The event that a CloudEvent document describes."""
        fields = Fields.of(document)
        name = _VERSION.sub("", fields.text("type").removeprefix("trainmaster."))
        return cls(
            sequence=fields.integer("sequence") if sequence is None else sequence,
            name=name.removeprefix("job."),
            time=fields.time("time"),
            attempt=fields.integer("attempt", 1),
            data=fields.fields("data"),
            document=document,
        )

    @property
    def final_state(self) -> str | None:
        """The state in which the job ended, where this event ends it."""
        state = self.name.capitalize()
        return state if state in ENDED_STATES else None
