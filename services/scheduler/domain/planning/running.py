"""A gang that holds a place, and what is known of its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from services.scheduler.domain.gang import RoleAsk


@dataclass(frozen=True, slots=True)
class Running:
    """A gang that holds a place since `since`: at the latest until `ends_by`, where that is known.

    One that is `ending` has been told to stop. `moves` counts how often some of its nodes were replaced.
    """

    gang: str
    job: str
    priority: int
    project: str
    owner: str
    roles: tuple[RoleAsk, ...]
    since: datetime
    ends_by: datetime | None = None
    preemptible: bool = False
    ending: bool = False
    grace_s: float = 30.0
    moves: int = 0

    @property
    def pools(self) -> set[str]:
        """The pools that it holds places in."""
        return {role.pool for role in self.roles}
