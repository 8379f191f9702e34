"""Ids and the names made of them: every one is a DNS label, a subject token, a KV key and a file name at once.

Human names are data and may be in any script; what goes into subjects and paths is an id of `[a-z0-9-]`: random for
jobs (`tj-` and 12 characters of lower-case base32), a hash of the name for catalog objects, so that the same name
always means the same key. A gang is `<job>-<attempt>`, a replica `<gang>-<role>-<index>`, its host name
`<replica>.<gang>`.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from typing import Final, NewType

JobId = NewType("JobId", str)
UserId = NewType("UserId", str)
NodeId = NewType("NodeId", str)
GangId = NewType("GangId", str)
ReplicaId = NewType("ReplicaId", str)

DNS_LABEL_MAX: Final = 63
_ID_BYTES: Final = 8
_ID_CHARS: Final = 12
_JOB_ID = re.compile(r"tj-[a-z2-7]{12}", re.ASCII)
_GANG_ID = re.compile(r"tj-[a-z2-7]{12}-[1-9][0-9]{0,8}", re.ASCII)


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode("ascii").lower()[:_ID_CHARS]


def new_job_id() -> JobId:
    """A fresh random job id."""
    return JobId("tj-" + _base32(secrets.token_bytes(_ID_BYTES)))


def is_job_id(text: str) -> bool:
    """Whether the text has the shape of a job id (names may have it too; ids win)."""
    return _JOB_ID.fullmatch(text) is not None


def is_gang_id(text: str) -> bool:
    """Whether the text has the shape of a gang's id."""
    return _GANG_ID.fullmatch(text) is not None


def digest(*parts: str) -> str:
    """Hex SHA-256 over the parts, which are kept apart so that ("a", "bc") and ("ab", "c") differ."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def hashed_id(prefix: str, *parts: str) -> str:
    """Id that the same parts always give: `u-3f…` from ("u", user name)."""
    return f"{prefix}-{_base32(bytes.fromhex(digest(*parts)))}"


def name_token(owner: str, name: str) -> str:
    """Subject token under which `owner` holds the job name `name`."""
    return digest(owner, name)


def node_of_subject(subject: str) -> str:
    """The node that an event on `tm.node.<cluster>.<node>.<event>` is about."""
    return subject.split(".")[3]


def gang_id(job: str, attempt: int) -> GangId:
    """Id of the gang of one attempt."""
    return GangId(f"{job}-{attempt}")


def replica_id(job: str, attempt: int, role: str, index: int) -> ReplicaId:
    """Id of one replica of one attempt; also its short host name."""
    return ReplicaId(f"{gang_id(job, attempt)}-{role}-{index}")


def host_name(job: str, attempt: int, role: str, index: int) -> str:
    """Name under which the other replicas reach this one."""
    return f"{replica_id(job, attempt, role, index)}.{gang_id(job, attempt)}"
