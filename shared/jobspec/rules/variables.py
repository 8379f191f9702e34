"""Rules about environment variables and secrets. Their names and sizes are matters of the field types."""

from __future__ import annotations

from collections.abc import Iterator

from shared.documents.fields import shown
from shared.documents.parsing import pointer
from shared.errors import Violation
from shared.jobspec.draft import Draft
from shared.jobspec.models import SECRETS_MAX, VARIABLES_MAX


def variables_are_few(draft: Draft) -> Iterator[Violation]:
    """A job sets at most 20 variables, those counted that set numbers of replicas."""
    yield from _at_most(draft, "env", VARIABLES_MAX)


def secrets_are_few(draft: Draft) -> Iterator[Violation]:
    """A job names at most 20 secrets."""
    yield from _at_most(draft, "secrets", SECRETS_MAX)


def secrets_are_no_variables(draft: Draft) -> Iterator[Violation]:
    """A variable is set in one place."""
    variables = draft.mapping("spec", "env")
    for name in draft.mapping("spec", "secrets"):
        if name in variables:
            sentence = f"{shown(name)} is set in env, too; leave it out in one of the two"
            yield Violation(pointer(("spec", "secrets", name)), "variable-twice", sentence)


def _at_most(draft: Draft, section: str, limit: int) -> Iterator[Violation]:
    count = len(draft.mapping("spec", section))
    if count > limit:
        yield Violation(pointer(("spec", section)), "too-many", f"{section} has {count} entries; give at most {limit}")
