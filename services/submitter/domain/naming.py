"""The name of a job that gives only the beginning of one.

The rest is made of the job's id, so that a repeat of the same call comes to the same name, and of the try, as a name
may be taken already.
"""

from __future__ import annotations

from shared.documents.fields import GENERATED_CHARS
from shared.errors import ConflictError
from shared.ids import hashed_id
from shared.jobspec import JobSpec


class NameTakenError(ConflictError):
    """Another job of the same user has the name."""


def name_of(job: JobSpec, job_id: str, attempt: int) -> str:
    """What the job is called in this try to claim a name."""
    metadata = job.metadata
    if metadata.generate_name is None:
        return metadata.name or ""
    return metadata.generate_name + hashed_id("name", job_id, str(attempt))[-GENERATED_CHARS:]
