"""Columns in which one cycle places gangs, with what it has learnt about them: which shapes do not fit any more.

A gang gets nodes that may be bad only where it does not fit on the others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from services.scheduler.domain.gang import Gang
from services.scheduler.domain.planning.columns import Columns
from services.scheduler.domain.planning.fit import Place, fit, fit_one, take
from services.scheduler.domain.planning.singles import Singles


class Space:
    """Room for gangs, which only shrinks."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._singles = Singles(columns)
        self._failed: set[object] = set()
        self._failed_mixed: set[object] = set()

    def place(self, gang: Gang) -> tuple[Place, ...] | None:
        """A place for the gang; None, and remembered, where it does not fit."""
        failed = self._failed if len(gang.roles) == 1 else self._failed_mixed
        if failed and gang.shape in failed:
            return None
        places = self._fit(gang)
        if places is None:
            failed.add(gang.shape)
        return places

    def take(self, places: tuple[Place, ...]) -> None:
        """Take these places."""
        take(places, self.columns)
        self._shrunk(places)

    def cap(self, places: tuple[Place, ...], *others: Columns) -> None:
        """On the rows of these places, have no more than any of the others has."""
        for place in places:
            rows = np.array(place.rows)
            for other in others:
                self.columns.lower(rows, other)
        self._shrunk(places)

    def _shrunk(self, places: tuple[Place, ...]) -> None:
        for place in places:
            self._singles.touch(place.rows)
        # With less room roles may be packed in another order, so that a gang of several may fit where it did not.
        self._failed_mixed.clear()

    def _fit(self, gang: Gang) -> tuple[Place, ...] | None:
        role, *others = gang.roles
        plain = not others and role.replicas == 1 and not gang.avoided
        tightest = self._singles.of(role.pool, role.request) if plain else None
        if tightest is not None:
            row = tightest.first()
            if row is None or row not in self.columns.layout.suspects:
                return fit_one(role, self.columns, row)
        return self._fit_without_suspects(gang) or fit(gang, self.columns)

    def _fit_without_suspects(self, gang: Gang) -> tuple[Place, ...] | None:
        """A place without nodes that may be bad; none where there are no such nodes, or not enough others."""
        layout = self.columns.layout
        if not layout.suspects:
            return None
        suspects = {layout.nodes[row].id for row in layout.suspects}
        return fit(replace(gang, suspected=gang.suspected | suspects), self.columns)
