"""Repeating a submission without a second job: the key that a client sends names the job that comes of it.

The job id is made of user and key, so a repeat meets the job that the first call made, also after a restart and between
two submitters. The digest of the document is kept in the job's first event; a key with another document is an error.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Final

from shared.errors import ConflictError, InvalidInputError, Violation
from shared.ids import hashed_id
from shared.jobs import Job

_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)


def check_key(key: str) -> str:
    """The key as it came; raises InvalidInputError where it is none."""
    if _KEY.fullmatch(key) is None:
        sentence = "a key has 1 to 255 visible ASCII characters; a UUID is a good one"
        raise InvalidInputError((Violation("/header/idempotency-key", "bad-idempotency-key", sentence),))
    return key


def job_id_of(user_id: str, key: str) -> str:
    """Id of the job that this user's key makes."""
    return hashed_id("tj", "idempotency-key", user_id, key)


def digest_of(document: object) -> str:
    """Digest of a JSON document, whatever the order of its keys."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def check_repeat(job: Job, request_digest: str) -> Job:
    """The job that an earlier call with the same key made; raises where this call asks for something else."""
    if job.submitted.request_digest != request_digest:
        sentence = f"this key made the job {job.id} of another document; use a new key for a new job"
        raise InvalidInputError((Violation("/header/idempotency-key", "idempotency-key-reused", sentence),))
    if job.deleted:
        raise ConflictError(f"this key made the job {job.id}, which was deleted since; use a new key for a new job")
    return job
