"""Assets: storages, datasets, models, images, code sets, projects."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

from services.submitter.domain import assets
from services.submitter.domain.assets import ASSET_KINDS, Setting
from services.submitter.domain.quotas import use_of
from shared.admission.directories import Directories
from shared.admission.locations import Locations
from shared.admission.packing import pack
from shared.auth.principal import Principal
from shared.bus.blobs import Blobs
from shared.catalog import (
    Catalog,
    CatalogDocument,
    CatalogWatch,
    CatalogWriter,
    CodeSet,
    Entry,
    Project,
    Secret,
    Written,
    asker_of,
    may_change,
)
from shared.catalog.access import DEFAULT_PROJECT
from shared.catalog.view import DocumentT
from shared.clock import Clock
from shared.documents import must_parse
from shared.documents.fields import shown
from shared.errors import ForbiddenError, InvalidInputError, NotFoundError, Violation
from shared.readmodel import JobReadModel
from shared.vault import Vault


@dataclass(frozen=True, slots=True)
class AssetHandlers:
    """The use cases about assets."""

    watch: CatalogWatch
    writer: CatalogWriter
    uploads: Blobs
    vault: Vault
    locations: Locations
    clock: Clock
    jobs: JobReadModel
    directories: Directories

    async def get(self, principal: Principal, plural: str, name: str) -> Entry[CatalogDocument]:
        """The asset with this name, if the principal may see it."""
        kind = kind_of(plural)
        catalog = await self.watch.refresh()
        entry = _found(kind, name, catalog)
        if entry is None or not assets.is_listed(entry.document, asker_of(principal, catalog)):
            raise NotFoundError(kind.SINGULAR, name)
        return self._with_use(entry)

    async def visible(self, principal: Principal, plural: str) -> list[Entry[CatalogDocument]]:
        """All assets of a kind that the principal may see, by name."""
        kind = kind_of(plural)
        catalog = await self.watch.refresh()
        asker = asker_of(principal, catalog)
        return [self._with_use(entry) for entry in _all(kind, catalog) if assets.is_listed(entry.document, asker)]

    async def put(
        self, principal: Principal, plural: str, name: str, body: object, if_match: int | None
    ) -> Written[CatalogDocument]:
        """Keep an asset; raises InvalidInputError, ForbiddenError, ConflictError."""
        kind = kind_of(plural)
        document = parsed(kind, name, body)
        kept = await self._keep_code(document)
        missing = await self.directories.missing(assets.paths_of(document))

        def make(catalog: Catalog, before: Entry[CatalogDocument] | None) -> CatalogDocument:
            asker = asker_of(principal, catalog)
            assets.check_may_write(kind, before, name, asker)
            assets.check_may_make(document, asker)
            violations = assets.check(document, Setting(asker, catalog, self.locations, kept, missing))
            if violations:
                raise InvalidInputError(violations)
            return assets.stamped(assets.without_value(document), before, self.clock.now(), owner=asker.name)

        value = document.spec.value if isinstance(document, Secret) else None
        written = await self.writer.put(kind, name, make, if_match=if_match, anew=value is not None)
        if value is not None:
            await self.vault.keep(document.id, value)
        return written

    async def delete(self, principal: Principal, plural: str, name: str, if_match: int | None) -> None:
        """Remove an asset; jobs that use it go on, as they know what it meant."""
        kind = kind_of(plural)

        def check(catalog: Catalog, entry: Entry[CatalogDocument]) -> None:
            asker = asker_of(principal, catalog)
            if not assets.is_listed(entry.document, asker):
                raise NotFoundError(kind.SINGULAR, name)
            if not may_change(entry.document.owner, asker):
                sentence = f"the {kind.SINGULAR} {shown(name)} belongs to {entry.document.owner}"
                raise ForbiddenError(f"{sentence}; only they and admins may delete it")
            if isinstance(entry.document, Project) and entry.document.spec.quotas is not None and not asker.admin:
                raise ForbiddenError(f"the project {shown(name)} has quotas; only admins may delete it")

        await self.writer.delete(kind, name, check, if_match=if_match)
        if kind is Secret:
            await self.vault.forget(Secret.id_of(name))

    def _with_use(self, entry: Entry[CatalogDocument]) -> Entry[CatalogDocument]:
        """A project tells what its jobs have now."""
        project = entry.document
        if not isinstance(project, Project):
            return entry
        status = use_of(project.name, self.jobs.live()).document(project)
        return replace(entry, document=project.model_copy(update={"status": {"quotas": status}}))

    async def _keep_code(self, document: CatalogDocument) -> frozenset[str]:
        """Digests that the document speaks of and that are kept; inline code is packed and kept now."""
        if not isinstance(document, CodeSet):
            return frozenset()
        if document.spec.inline:
            await self.uploads.put(io.BytesIO(pack(document.spec.inline).content))
        upload = document.spec.upload
        return frozenset({upload}) if upload is not None and await self.uploads.exists(upload) else frozenset()


def _found(kind: type[CatalogDocument], name: str, catalog: Catalog) -> Entry[CatalogDocument] | None:
    """The document of this name; the project that everybody is in is there without one."""
    if kind is Project and name == DEFAULT_PROJECT:
        return catalog.find(Project, name) or Entry(assets.default_project(), 0)
    return catalog.find(kind, name)


def _all(kind: type[CatalogDocument], catalog: Catalog) -> list[Entry[CatalogDocument]]:
    """All documents of the kind by name, with the project that is there without one."""
    kept = list(catalog.entries(kind))
    if kind is not Project or catalog.get(Project, DEFAULT_PROJECT) is not None:
        return kept
    common: Entry[CatalogDocument] = Entry(assets.default_project(), 0)
    return sorted((*kept, common), key=lambda entry: entry.document.name)


def kind_of(plural: str) -> type[CatalogDocument]:
    """The kind of asset that a path names."""
    if plural not in ASSET_KINDS:
        raise NotFoundError("kind of asset", plural)
    return ASSET_KINDS[plural]


def parsed(kind: type[DocumentT], name: str, body: object) -> DocumentT:
    """The document in a body, whose name must be the one of the path."""
    document = must_parse(kind, body)
    if document.name != name:
        sentence = f"the document is called {shown(document.name)}, the path says {shown(name)}; make them the same"
        raise InvalidInputError((Violation("/metadata/name", "name-mismatch", sentence),))
    return document
