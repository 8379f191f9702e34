"""The one who asks, as every service sees them, and the rule about whose things they may see."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from shared.ids import UserId


@dataclass(frozen=True, slots=True)
class Principal:
    """A known user: the id that subjects and owners use, the name that people use, and whether an admin."""

    user_id: UserId
    name: str
    admin: bool = False


def can_see(principal: Principal, owner: str, project_members: Collection[str] = ()) -> bool:
    """Users see their own things, members of a project the things in it, admins everything; all by user id."""
    return principal.admin or principal.user_id == owner or principal.user_id in project_members
