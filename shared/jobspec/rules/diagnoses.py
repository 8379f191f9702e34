"""The rule about diagnosis: a retry that can ever come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shared.documents.parsing import pointer
from shared.errors import Violation
from shared.jobspec.draft import Draft

_ON_FAILURE: Final = ("spec", "retry", "on", "diagnosisFailure")


def a_retry_on_diagnosis_failure_can_happen(draft: Draft) -> Iterator[Violation]:
    """Only a job whose nodes are diagnosed is retried after a diagnosis that failed."""
    diagnoses = draft.raw("spec", "diagnosis", "enabled") is True
    if draft.raw(*_ON_FAILURE) is True and not diagnoses:
        yield Violation(
            pointer(_ON_FAILURE),
            "diagnosis-off",
            "nodes are never diagnosed here; give diagnosis: {enabled: true}, or leave diagnosisFailure out",
        )
