"""The profiles of instance types, from the catalog as it is now: a changed floor holds for the next diagnosis."""

from __future__ import annotations

from collections.abc import Callable

from services.diagnoser.domain.profiles import profile_of
from services.diagnoser.domain.stages import Profile
from shared.catalog import CatalogWatch, InstanceType
from shared.errors import NotFoundError


class CatalogProfiles:
    """Knows what instance types say of diagnoses."""

    def __init__(self, catalog: CatalogWatch) -> None:
        self._catalog = catalog

    async def of_types(self) -> Callable[[str], Profile]:
        """Gives the profile of a type by its name; everything where there is no such type any more."""
        view = await self._catalog.refresh()

        def of_type(name: str) -> Profile:
            kind = view.get(InstanceType, name)
            return profile_of(kind.spec.diagnosis if kind else None)

        return of_type

    async def of_type(self, name: str) -> Profile:
        """The profile of one type, and of none (everything) without a name; raises NotFoundError."""
        if not name:
            return Profile()
        kind = (await self._catalog.refresh()).get(InstanceType, name)
        if kind is None:
            raise NotFoundError("instance type", name)
        return profile_of(kind.spec.diagnosis)
