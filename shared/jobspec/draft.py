"""A document that may be wrong in places, seen place by place.

Rules that compare places must not fall silent because something else is wrong, so they read the raw document through
this view: `get` gives a value only where it is right by itself, `raw` whatever stands there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter

from shared.documents.parsing import accepts

ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Draft:
    """Read-only view of a JSON document."""

    document: object

    def raw(self, *path: str | int) -> object:
        """What stands at the path, or ABSENT."""
        here = self.document
        for part in path:
            if isinstance(here, list) and isinstance(part, int):
                here = here[part] if part < len(here) else ABSENT
            else:
                here = here.get(str(part), ABSENT) if isinstance(here, dict) else ABSENT
        return here

    def get(self, field: TypeAdapter[Any], *path: str | int) -> Any | None:
        """The value at the path as the document has it, or None where it is absent or wrong by itself."""
        value = self.raw(*path)
        return value if value is not ABSENT and accepts(field, value) else None

    def mapping(self, *path: str | int) -> dict[str, object]:
        """The object at the path; empty where there is none."""
        value = self.raw(*path)
        return value if isinstance(value, dict) else {}

    def length(self, *path: str | int) -> int:
        """How many items the list at the path has; 0 where there is none."""
        value = self.raw(*path)
        return len(value) if isinstance(value, list) else 0
