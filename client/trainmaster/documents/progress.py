"""How far an attempt is, as the job document and the event `progress.reported` have it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trainmaster.decoding import Fields


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt was when it was last told; None is what is not known."""

    at: datetime | None
    step: int | None
    total_steps: int | None
    within_epoch: bool
    epoch: float | None
    total_epochs: int | None
    loss: float | None
    steps_per_second: float | None
    fraction: float | None
    estimated_end: datetime | None

    @classmethod
    def of(cls, fields: Fields) -> Progress:
        """The progress that a job document or an event describes."""
        return cls(
            at=fields.time("at"),
            step=fields.optional_integer("step"),
            total_steps=fields.optional_integer("totalSteps"),
            within_epoch=fields.flag("withinEpoch"),
            epoch=_optional_number(fields, "epoch"),
            total_epochs=fields.optional_integer("totalEpochs"),
            loss=_optional_number(fields, "loss"),
            steps_per_second=_optional_number(fields, "stepsPerSecond"),
            fraction=_optional_number(fields, "fraction"),
            estimated_end=fields.time("estimatedEnd"),
        )


def _optional_number(fields: Fields, name: str) -> float | None:
    return fields.number(name) if fields.document.get(name) is not None else None
