"""Reads the platform's JSON field by field, so that a wrong shape is one clear error instead of a KeyError somewhere.

Unknown fields are ignored and missing ones take a default: a newer platform may say more, an older one less. A field of
the wrong type raises UnexpectedAnswerError naming its place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from trainmaster.errors import UnexpectedAnswerError

Document: TypeAlias = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object, and where in the answer it stands."""

    document: Mapping[str, Any]
    where: str = ""

    @classmethod
    def of(cls, value: object, where: str = "") -> Fields:
        """The value as an object; raises where it is none."""
        if not isinstance(value, Mapping):
            sent = type(value).__name__
            raise UnexpectedAnswerError(f"the platform sent {sent} where an object was due: {where or '/'}")
        return cls(value, where)

    def text(self, name: str, default: str = "") -> str:
        """A string."""
        return self._typed(name, str, default)

    def integer(self, name: str, default: int = 0) -> int:
        """A whole number."""
        return self._typed(name, int, default)

    def optional_integer(self, name: str) -> int | None:
        """A whole number, or None where it is absent."""
        return None if self.document.get(name) is None else self.integer(name)

    def number(self, name: str) -> float:
        """A number; NaN where the platform had none to say (JSON has no NaN)."""
        value = self.document.get(name)
        return float(self._typed(name, (int, float), 0.0)) if value is not None else float("nan")

    def flag(self, name: str) -> bool:
        """True or false."""
        return self._typed(name, bool, default=False)

    def time(self, name: str) -> datetime | None:
        """An RFC 3339 time."""
        text = self.text(name)
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(text) if text else None
        raise UnexpectedAnswerError(f"the platform sent {text!r} where a time was due: {self.where}/{name}")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(str(item) for item in self._typed(name, list, []))

    def fields(self, name: str) -> Fields:
        """A nested object; an empty one where it is absent."""
        return Fields.of(self.document.get(name) or {}, f"{self.where}/{name}")

    def each(self, name: str) -> Iterator[Fields]:
        """The objects of a list."""
        for index, item in enumerate(self._typed(name, list, [])):
            yield Fields.of(item, f"{self.where}/{name}/{index}")

    def _typed(self, name: str, kind: type[T] | tuple[type[T], ...], default: T) -> T:
        value = self.document.get(name)
        if value is None:
            return default
        if not isinstance(value, kind):
            where = f"{self.where}/{name}"
            raise UnexpectedAnswerError(f"the platform sent {value!r:.60} where {default!r:.20} would be: {where}")
        return value
