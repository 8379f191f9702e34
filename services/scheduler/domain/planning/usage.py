"""Who holds how much, by pool: what fair shares and quotas are reckoned from. All of it is integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from services.scheduler.domain.gang import RoleAsk
from services.scheduler.domain.quotas import Use

# Millicores, bytes, GPUs, replicas.
Amounts = tuple[int, int, int, int]
_NOTHING: Final[Amounts] = (0, 0, 0, 0)


class Usage:
    """Cores, memory and GPUs that projects and their users hold in each pool, and what counts against quotas."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, ...], Amounts] = {}
        self._used: dict[str, Use] = {}

    @property
    def used(self) -> Mapping[str, Use]:
        """What each project holds over all pools."""
        return self._used

    def copy(self) -> Usage:
        """The same, to be changed freely."""
        other = Usage()
        other._held, other._used = dict(self._held), dict(self._used)
        return other

    def add(self, project: str, owner: str, roles: Iterable[RoleAsk]) -> None:
        """Count what these roles hold."""
        asked = tuple(roles)
        self.shift(project, owner, amounts_by_pool(asked), 1)

    def remove(self, project: str, owner: str, roles: Iterable[RoleAsk]) -> None:
        """Count it no longer."""
        self.shift(project, owner, amounts_by_pool(roles), -1)

    def held(self, *who: str) -> Amounts:
        """What is held in a pool by a project, or by one of its users."""
        return self._held.get(who, _NOTHING)

    def shift(self, project: str, owner: str, amounts: Mapping[str, Amounts], sign: int) -> None:
        """Count these amounts, by pool, once more or once less."""
        for pool, asked in amounts.items():
            for who in ((pool, project), (pool, project, owner)):
                self._put(who, _plus(self._held.get(who, _NOTHING), asked, sign))
            _, _, gpus, replicas = asked
            self._used[project] = self._used.get(project, Use()) + Use(sign * replicas, sign * gpus)

    def _put(self, who: tuple[str, ...], amounts: Amounts) -> None:
        if any(amounts):
            self._held[who] = amounts
        else:
            self._held.pop(who, None)


def amounts_by_pool(roles: Iterable[RoleAsk]) -> dict[str, Amounts]:
    """What the roles ask for in each pool."""
    asked: dict[str, Amounts] = {}
    for role in roles:
        request, count = role.request, role.replicas
        amounts = (request.cpu_m * count, request.memory_bytes * count, request.gpus * count, count)
        asked[role.pool] = _plus(asked.get(role.pool, _NOTHING), amounts)
    return asked


def _plus(one: Amounts, other: Amounts, sign: int = 1) -> Amounts:
    a, b, c, d = one
    e, f, g, h = other
    return a + sign * e, b + sign * f, c + sign * g, d + sign * h
