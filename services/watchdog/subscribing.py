"""What users do with notifications: list, make, change, delete their own; admins all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from services.watchdog.adapters.outbox import Outbox
from services.watchdog.domain.notifications import Notification, is_listed, violations_of
from shared.auth.principal import Principal
from shared.catalog import Catalog, CatalogWatch, CatalogWriter, Entry, Written, asker_of, may_change
from shared.catalog.access import asker_named
from shared.clock import Clock
from shared.documents import must_parse
from shared.documents.fields import shown
from shared.errors import ConflictError, InvalidInputError, NotFoundError, Violation


@dataclass(frozen=True, slots=True)
class NotificationHandlers:
    """The use cases."""

    watch: CatalogWatch
    writer: CatalogWriter
    outbox: Outbox
    clock: Clock

    async def visible(self, principal: Principal) -> list[Entry[Notification]]:
        """The principal's notifications, by name."""
        catalog = await self.watch.refresh()
        asker = asker_of(principal, catalog)
        return [self._with_status(each) for each in catalog.entries(Notification) if is_listed(each.document, asker)]

    async def get(self, principal: Principal, name: str) -> Entry[Notification]:
        """One of them; raises NotFoundError."""
        found = next((each for each in await self.visible(principal) if each.document.name == name), None)
        if found is None:
            raise NotFoundError("notification", name)
        return found

    async def put(self, principal: Principal, name: str, body: object, if_match: int | None) -> Written[Notification]:
        """Keep a notification; raises InvalidInputError, ConflictError."""
        document = must_parse(Notification, body)
        if document.name != name:
            sentence = f"the document is called {shown(document.name)}, the path says {shown(name)}; make them the same"
            raise InvalidInputError((Violation("/metadata/name", "name-mismatch", sentence),))
        written = await self.writer.put(Notification, name, self._maker(principal, document), if_match=if_match)
        return replace(written, entry=self._with_status(written.entry))

    async def delete(self, principal: Principal, name: str, if_match: int | None) -> None:
        """Remove a notification, with what it has not delivered."""

        def check(catalog: Catalog, entry: Entry[Notification]) -> None:
            if not is_listed(entry.document, asker_of(principal, catalog)):
                raise NotFoundError("notification", name)

        await self.writer.delete(Notification, name, check, if_match=if_match)
        self.outbox.forget(name)

    def _maker(
        self, principal: Principal, document: Notification
    ) -> Callable[[Catalog, Entry[Notification] | None], Notification]:
        def make(catalog: Catalog, before: Entry[Notification] | None) -> Notification:
            asker = asker_of(principal, catalog)
            if before is not None and not may_change(before.document.owner, asker):
                raise ConflictError(f"the name {shown(document.name)} is taken among the notifications; choose another")
            owner = asker_named(before.document.owner or "", catalog) if before else asker
            violations = tuple(violations_of(document, owner, catalog))
            if violations:
                raise InvalidInputError(violations)
            return self._stamped(document, before, asker.name)

        return make

    def _stamped(self, document: Notification, before: Entry[Notification] | None, maker: str) -> Notification:
        now = self.clock.now()
        old = before.document.metadata if before else None
        metadata = document.metadata.model_copy(
            update={
                "id": document.id,
                "owner": old.owner if old else maker,
                "created_at": old.created_at if old else now,
                "updated_at": now,
                "sequence": None,
            }
        )
        return document.model_copy(update={"metadata": metadata, "status": None})

    def _with_status(self, entry: Entry[Notification]) -> Entry[Notification]:
        """A notification tells how its deliveries stand."""
        standing = self.outbox.standing(entry.document.name)
        status = {
            "waiting": standing.waiting,
            "delivered": standing.delivered,
            "givenUp": standing.given_up,
            "lastError": standing.last_error,
        }
        return replace(entry, document=entry.document.model_copy(update={"status": status}))
