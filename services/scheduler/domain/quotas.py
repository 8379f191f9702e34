"""How much the jobs of a project may hold at one time, how much they hold, and what that leaves for a waiting gang.

A project's jobs hold replicas and GPUs as the ledger has them: from the placement of a gang to the confirmed end of its
replicas. A gang that would go over its project's quota waits, and is passed by those of other projects in any pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from services.scheduler.domain.blocker import Blocker
from services.scheduler.domain.gang import Gang, RoleAsk


@dataclass(frozen=True, slots=True)
class Quota:
    """The most that a project may hold; None has no limit."""

    replicas: int | None = None
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """What is held, or asked for."""

    replicas: int = 0
    gpus: int = 0

    def __add__(self, other: Use) -> Use:
        return Use(self.replicas + other.replicas, self.gpus + other.gpus)

    def __sub__(self, other: Use) -> Use:
        return Use(self.replicas - other.replicas, self.gpus - other.gpus)


def use_of(roles: Iterable[RoleAsk]) -> Use:
    """What a gang of these roles holds, or would."""
    asked = tuple(roles)
    return Use(sum(role.replicas for role in asked), sum(role.replicas * role.request.gpus for role in asked))


def quota_blockers(gang: Gang, quotas: Mapping[str, Quota], used: Mapping[str, Use]) -> tuple[Blocker, ...]:
    """What the gang would take beyond its project's quota; nothing where it may start."""
    quota = quotas.get(gang.project)
    return tuple(_blockers(gang, quota, used.get(gang.project, Use()))) if quota is not None else ()


def _blockers(gang: Gang, quota: Quota, held: Use) -> Iterator[Blocker]:
    asked = use_of(gang.roles)
    rows = (
        ("quota-replicas", "running replicas", quota.replicas, held.replicas, asked.replicas),
        ("quota-gpus", "GPUs", quota.gpus, held.gpus, asked.gpus),
    )
    for resource, called, limit, now, wanted in rows:
        if limit is not None and wanted > 0 and now + wanted > limit:
            left = max(limit - now, 0)
            detail = (
                f"project {gang.project!r} may have {limit} {called}; its jobs have {now}, and this one needs {wanted}"
            )
            yield Blocker("", resource, wanted, left, limit, left, detail)


def is_beyond_quota(blockers: Iterable[Blocker]) -> bool:
    """Whether the gang alone asks for more than its project may ever have."""
    return any(blocker.needed > blocker.total for blocker in blockers)
