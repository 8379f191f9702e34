"""What keeps a gang from starting, in numbers: the form that every reason for waiting has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing that is short; amounts are millicores, bytes, GPUs, replicas or nodes, as `resource` says."""

    role: str
    resource: str
    needed: int
    available: int
    total: int
    largest: int
    detail: str
