"""The rule about what a job is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shared.documents.parsing import pointer
from shared.errors import Violation
from shared.jobspec.draft import Draft

_METADATA: Final = "metadata"


def one_name_is_given(draft: Draft) -> Iterator[Violation]:
    """The user names the job, or the platform does."""
    if not isinstance(draft.raw(_METADATA), dict):
        return
    given = [key for key in ("name", "generateName") if draft.mapping(_METADATA).get(key) is not None]
    if not given:
        sentence = "name is missing; give a name, or in generateName the beginning of one"
        yield Violation(pointer((_METADATA, "name")), "required", sentence)
    elif len(given) > 1:
        sentence = "give name, or generateName where the platform shall complete it, and not both"
        yield Violation(pointer((_METADATA, "generateName")), "two-names", sentence)
