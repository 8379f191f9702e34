"""What the design describes and this version does not do: refused with a sentence, never taken and ignored.

A block that only says "off" asks for nothing and is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shared.documents.parsing import pointer
from shared.errors import Violation
from shared.jobspec.draft import Draft
from shared.jobspec.models import FIRST_CLUSTER

NOT_YET: Final = "not-yet-available"


def not_yet(field: str, place: tuple[str | int, ...], instead: str) -> Violation:
    """Refusal of a field that a later version brings, with what to do meanwhile."""
    return Violation(pointer(place), NOT_YET, f"{field} is not available yet; {instead}")


def is_not_used_yet(draft: Draft) -> Iterator[Violation]:
    """No field of a later version asks for anything."""
    cluster = draft.raw("spec", "cluster")
    if isinstance(cluster, str) and cluster != FIRST_CLUSTER:
        yield not_yet("more than one cluster", ("spec", "cluster"), f"leave it out or give {FIRST_CLUSTER!r}")
