"""Why a placed gang is where it is: the smallest domain that holds all of it, and what else could have.

The comparison is made as things are now, with the gang's own place given back. A gang goes to the smallest kind of
domain that holds it (a node, a leaf, a spine, the cluster), and among those to the one with the least to spare.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from services.scheduler.domain.gang import Level, RoleAsk
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.layout import Flags, Ints

_LEVELS: Final = (Level.LEAF, Level.SPINE)


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """The domain that a gang is in; `could` of `total` such domains could hold it, its own included.

    `spare` replicas more fit in its own. `tighter` domains have less to spare now; there was none at the placement.
    """

    level: str
    nodes: int
    could: int
    total: int
    spare: int
    tighter: int

    @property
    def text(self) -> str:
        """In a sentence."""
        if self.level == "cluster":
            return f"spread over {self.nodes} nodes: no leaf and no spine that has a name holds all of it"
        where = f"on one {self.level}" + (f" ({self.nodes} nodes)" if self.level != "node" else "")
        others = self.could - 1
        if not others:
            return f"{where}, the only one of {self.total} that can hold all of it"
        fit = "the tightest fit" if not self.tighter else f"{self.tighter} of them are a tighter fit by now"
        room = f"with room for {self.spare} more replicas"
        return f"{where}: {others} of the {self.total - 1} others could hold it, too; {fit}, {room}"


def whereabouts(roles: Sequence[RoleAsk], nodes: Collection[str], free: Columns) -> Whereabouts | None:
    """Where a gang with these roles is; `free` is what there is without it. None where its nodes are not known."""
    layout = free.layout
    rows = sorted(layout.row_of[node] for node in nodes if node in layout.row_of)
    if not rows or len(rows) < len(set(nodes)):
        return None
    if len(rows) == 1:
        held = [free.holds(role.pool, role.request) for role in roles]
        return _compared("node", rows, rows[0], held, roles)
    for level in _LEVELS:
        numbers = {int(layout.number_of[level][row]) for row in rows}
        named = layout.domains[level].named
        if len(numbers) == 1 and named[own := numbers.pop()]:
            sums = [_sums(free, role, level)[named] for role in roles]
            return _compared(level.value, rows, int(named[:own].sum()), sums, roles)
    return Whereabouts("cluster", len(rows), 1, 1, 0, 0)


def _compared(level: str, rows: list[int], own: int, held: list[Ints], roles: Sequence[RoleAsk]) -> Whereabouts:
    spare = [counts - role.replicas for counts, role in zip(held, roles, strict=True)]
    enough: Flags = np.logical_and.reduce([more >= 0 for more in spare])
    enough[own] = True
    left: Ints = np.add.reduce(spare)
    tighter = int((enough & (left < left[own])).sum())
    return Whereabouts(level, len(rows), int(enough.sum()), len(enough), max(int(left[own]), 0), tighter)


def _sums(free: Columns, role: RoleAsk, level: Level) -> Ints:
    return free.sums(free.count(role.pool, role.request), level)
