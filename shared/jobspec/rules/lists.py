"""Rules about plain lists of names, in which a name stands once."""

from __future__ import annotations

from collections.abc import Iterator

from shared.documents.fields import shown
from shared.documents.parsing import pointer
from shared.errors import Violation
from shared.jobspec.draft import Draft


def labels_stand_once(draft: Draft) -> Iterator[Violation]:
    """A job has a label or has it not."""
    yield from _stand_once(draft, "metadata", "labels")


def excluded_nodes_stand_once(draft: Draft) -> Iterator[Violation]:
    """A node is excluded or not."""
    yield from _stand_once(draft, "spec", "excludeNodes")


def _stand_once(draft: Draft, *place: str) -> Iterator[Violation]:
    seen: set[str] = set()
    for index in range(draft.length(*place)):
        name = draft.raw(*place, index)
        if isinstance(name, str) and name in seen:
            yield Violation(pointer((*place, index)), "duplicate", f"{shown(name)} stands here twice; once is enough")
        elif isinstance(name, str):
            seen.add(name)
