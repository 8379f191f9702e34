"""What `/v1/scalars` answers: the curves that a job wrote for TensorBoard, in columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from trainmaster.decoding import Document, Fields
from trainmaster.errors import UnexpectedAnswerError


@dataclass(frozen=True, slots=True)
class ScalarPoint:
    """One value of a curve."""

    step: int
    value: float


@dataclass(frozen=True, slots=True)
class Curve:
    """The scalars that an attempt wrote under one tag of one run; `document` is the API's own JSON."""

    tag: str
    points: tuple[ScalarPoint, ...]
    document: Document
    attempt: int = 1
    run: str = ""

    @property
    def name(self) -> str:
        """Run and tag."""
        return f"{self.run}: {self.tag}" if self.run else self.tag

    @property
    def key(self) -> tuple[int, str, str]:
        """What tells curves apart."""
        return self.attempt, self.run, self.tag

    @classmethod
    def of(cls, fields: Fields) -> Curve:
        """One entry of the `tags` of `/v1/scalars/{job}`; raises UnexpectedAnswerError."""
        try:
            columns = zip(_list(fields, "steps"), _list(fields, "values"), strict=True)
            points = tuple(ScalarPoint(int(step), _number(value)) for step, value in columns)
        except (TypeError, ValueError) as error:
            raise UnexpectedAnswerError(f"the platform sent no curve at {fields.where}: {error}") from error
        attempt, run = fields.integer("attempt", 1), fields.text("run")
        return cls(fields.text("tag"), points, dict(fields.document), attempt, run)


def grown(curves: Iterable[Curve], further: Iterable[Curve]) -> tuple[Curve, ...]:
    """The curves with points that came since; curves that are new come with them."""
    known = {curve.key: curve for curve in curves}
    for more in further:
        before = known.get(more.key)
        known[more.key] = replace(more, points=before.points + more.points) if before else more
    return tuple(known[key] for key in sorted(known))


def _list(fields: Fields, name: str) -> list[Any]:
    value = fields.document.get(name) or []
    if not isinstance(value, list):
        raise TypeError(f"{name} is no list")
    return value


def _number(value: Any) -> float:
    """NaN where the platform had none to say (JSON has no NaN)."""
    return float("nan") if value is None else float(value)
