"""The catalogue of rules as people see and change it, and the running scanners following every change.

The built-in rules come with the service; those of admins are documents of the catalog bucket. `RuleFeed` hands them to
the scanners as soon as the bucket has changed, without a restart: chunks that come then are searched for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import structlog

from services.watchdog.adapters.incident_log import IncidentLog, RuleCount
from services.watchdog.domain.admin_rules import WOULD, AdminRule, rule_of, violations_in
from services.watchdog.domain.rules import Rule
from services.watchdog.rulebooks import Rulebooks
from shared.auth.principal import Principal
from shared.catalog import Catalog, CatalogWatch, CatalogWriter, Entry, Written
from shared.clock import Clock
from shared.documents import must_parse
from shared.documents.fields import shown
from shared.errors import ForbiddenError, InvalidInputError, NotFoundError, Violation

Origin = Literal["built-in", "preset", "admin"]
_ADMINS_ONLY: Final = "rules decide about everybody's jobs; only an admin may apply or delete one"


class RuleFeed:
    """Keeps the scanners' rules those of the catalog."""

    def __init__(self, watch: CatalogWatch, rulebooks: Rulebooks) -> None:
        self._watch = watch
        self._rulebooks = rulebooks
        self._log = structlog.get_logger(service="watchdog")
        self._present: tuple[AdminRule, ...] = ()
        watch.on_change(self.take_over)

    def take_over(self) -> None:
        """Hand over the rules where they have changed."""
        documents = tuple(self._watch.view.all(AdminRule))
        if documents != self._present:
            self._present = documents
            self._rulebooks.replace_added(self._rules(documents, "active"), self._rules(documents, "shadow"))
            self._log.info("rules_changed", rules=len(documents))

    def _rules(self, documents: Iterable[AdminRule], mode: str) -> list[Rule]:
        rules = []
        for document in documents:
            try:
                if document.spec.mode == mode:
                    rules.append(rule_of(document))
            except InvalidInputError as error:
                self._log.error("rule_unreadable", rule=document.name, reason=error.message)
        return rules


@dataclass(frozen=True, slots=True)
class ListedRule:
    """A rule with where it comes from, its mode, and for admins how often it was found."""

    rule: Rule
    origin: Origin
    mode: Literal["active", "shadow"]
    revision: int | None = None
    document: AdminRule | None = None
    count: RuleCount | None = None

    @property
    def would(self) -> str:
        """What a root cause of its class means for a job."""
        return WOULD[self.rule.failure_class]


@dataclass(frozen=True, slots=True)
class RuleHandlers:
    """The use cases."""

    watch: CatalogWatch
    writer: CatalogWriter
    built_in: tuple[Rule, ...]
    presets: tuple[Rule, ...]
    log: IncidentLog
    clock: Clock

    async def all(self, principal: Principal) -> list[ListedRule]:
        """The rules in the order in which they win, the preset rows last; those in shadow for admins only."""
        catalog = await self.watch.refresh()
        counts = self.log.counts() if principal.admin else {}
        admins = [_listed(entry) for entry in catalog.entries(AdminRule)]
        seen = [each for each in admins if principal.admin or each.mode == "active"]
        built_in = [ListedRule(rule, "built-in", "active") for rule in self.built_in]
        presets = [ListedRule(rule, "preset", "active") for rule in self.presets]
        return [_counted(each, counts.get(each.rule.id)) for each in (*seen, *built_in, *presets)]

    async def get(self, principal: Principal, name: str) -> ListedRule:
        """One of them; raises NotFoundError."""
        found = next((each for each in await self.all(principal) if each.rule.id == name), None)
        if found is None:
            raise NotFoundError("rule", name)
        return found

    async def put(self, principal: Principal, name: str, body: object, if_match: int | None) -> Written[AdminRule]:
        """Keep a rule; raises ForbiddenError, InvalidInputError."""
        _must_be_admin(principal)
        document = must_parse(AdminRule, body)
        if document.name != name:
            sentence = f"the document is called {shown(document.name)}, the path says {shown(name)}; make them the same"
            raise InvalidInputError((Violation("/metadata/name", "name-mismatch", sentence),))

        def make(catalog: Catalog, before: Entry[AdminRule] | None) -> AdminRule:
            others = [each for each in catalog.all(AdminRule) if each.name != name]
            known = (*self.built_in, *self.presets)
            violations = tuple(violations_in(document, before.document if before else None, others, known))
            if violations:
                raise InvalidInputError(violations)
            return self._stamped(document, before, principal.name)

        return await self.writer.put(AdminRule, name, make, if_match=if_match)

    async def delete(self, principal: Principal, name: str, if_match: int | None) -> None:
        """Remove a rule of an admin; incidents that it raised stay."""
        _must_be_admin(principal)
        await self.writer.delete(AdminRule, name, lambda _catalog, _entry: None, if_match=if_match)

    def _stamped(self, document: AdminRule, before: Entry[AdminRule] | None, maker: str) -> AdminRule:
        now, old = self.clock.now(), before.document.metadata if before else None
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


def _must_be_admin(principal: Principal) -> None:
    if not principal.admin:
        raise ForbiddenError(_ADMINS_ONLY)


def _listed(entry: Entry[AdminRule]) -> ListedRule:
    document = entry.document
    return ListedRule(rule_of(document), "admin", document.spec.mode, entry.revision, document)


def _counted(listed: ListedRule, count: RuleCount | None) -> ListedRule:
    return ListedRule(listed.rule, listed.origin, listed.mode, listed.revision, listed.document, count)
