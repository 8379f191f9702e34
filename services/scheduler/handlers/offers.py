"""Pools and instance types: listed for those who may use them, written by admins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from services.scheduler.domain.offers import instance_type_violations, pool_violations, seen_by, stamped, usable_pools
from shared.auth.principal import Principal
from shared.catalog import Catalog, CatalogWatch, Entry, InstanceType, Pool, asker_of
from shared.catalog.writer import CatalogWriter, Written
from shared.clock import Clock
from shared.documents import must_parse
from shared.documents.fields import shown
from shared.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, Violation
from shared.readmodel import JobReadModel


@dataclass(frozen=True, slots=True)
class OfferHandlers:
    """The use cases about pools and instance types."""

    catalog: CatalogWatch
    writer: CatalogWriter
    jobs: JobReadModel
    clock: Clock

    async def pools(self, principal: Principal) -> list[Entry[Pool]]:
        """The pools that the principal may use."""
        view = await self.catalog.refresh()
        usable = usable_pools(view, asker_of(principal, view))
        return [entry for entry in view.entries(Pool) if entry.document.name in usable]

    async def pool(self, principal: Principal, name: str) -> Entry[Pool]:
        """One of them; raises NotFoundError."""
        found = next((entry for entry in await self.pools(principal) if entry.document.name == name), None)
        if found is None:
            raise NotFoundError("pool", name)
        return found

    async def put_pool(
        self, principal: Principal, name: str, body: object, *, if_match: int | None = None
    ) -> Written[Pool]:
        """Make or change a pool; raises InvalidInputError with everything that is wrong."""
        _must_be_admin(principal)
        pool = must_parse(Pool, body)

        def make(view: Catalog, before: Entry[Pool] | None) -> Pool:
            _refuse_if_any([*_other_name(pool.name, name), *pool_violations(pool, view)])
            return stamped(pool, before.document if before else None, self.clock.now())

        return await self.writer.put(Pool, name, make, if_match=if_match)

    async def delete_pool(self, principal: Principal, name: str, *, if_match: int | None = None) -> None:
        """Remove a pool that neither a live job nor an instance type needs."""
        _must_be_admin(principal)
        await self.writer.delete(Pool, name, self._check_unused, if_match=if_match)

    async def instance_types(self, principal: Principal) -> list[Entry[InstanceType]]:
        """The instance types of the pools that the principal may use."""
        view = await self.catalog.refresh()
        asker = asker_of(principal, view)
        seen = ((seen_by(entry.document, view, asker), entry.revision) for entry in view.entries(InstanceType))
        return [Entry(document, revision) for document, revision in seen if document is not None]

    async def instance_type(self, principal: Principal, name: str) -> Entry[InstanceType]:
        """One of them; raises NotFoundError."""
        found = next((entry for entry in await self.instance_types(principal) if entry.document.name == name), None)
        if found is None:
            raise NotFoundError("instance type", name)
        return found

    async def put_instance_type(
        self, principal: Principal, name: str, body: object, *, if_match: int | None = None
    ) -> Written[InstanceType]:
        """Make or change an instance type; jobs that were submitted keep what they were promised."""
        _must_be_admin(principal)
        kind = must_parse(InstanceType, body)

        def make(view: Catalog, before: Entry[InstanceType] | None) -> InstanceType:
            _refuse_if_any([*_other_name(kind.name, name), *instance_type_violations(kind, view)])
            return stamped(kind, before.document if before else None, self.clock.now())

        return await self.writer.put(InstanceType, name, make, if_match=if_match)

    async def delete_instance_type(self, principal: Principal, name: str, *, if_match: int | None = None) -> None:
        """Remove an instance type; jobs that were submitted keep what they were promised."""
        _must_be_admin(principal)
        await self.writer.delete(InstanceType, name, lambda _view, _entry: None, if_match=if_match)

    def _check_unused(self, view: Catalog, entry: Entry[Pool]) -> None:
        pool = entry.document
        users = [
            job.name for job in self.jobs.live() if any(role.pool == pool.id for role in job.submitted.resolved.roles)
        ]
        types = [kind.name for kind in view.all(InstanceType) if pool.name in kind.spec.pools]
        if users:
            raise ConflictError(
                f"{len(users)} live jobs use the pool {shown(pool.name)}; stop them or wait for their end"
            )
        if types:
            raise ConflictError(
                f"instance types offer the pool {shown(pool.name)}: {', '.join(types)}; take it out of them first"
            )


def _must_be_admin(principal: Principal) -> None:
    if not principal.admin:
        raise ForbiddenError("only an admin may change pools and instance types")


def _other_name(given: str, path: str) -> Iterator[Violation]:
    if given != path:
        message = f"this is {shown(given)}, but the path says {shown(path)}; use the same name in both"
        yield Violation("/metadata/name", "name-mismatch", message)


def _refuse_if_any(violations: list[Violation]) -> None:
    if violations:
        raise InvalidInputError(tuple(violations))
