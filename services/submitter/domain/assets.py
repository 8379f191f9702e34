"""The rules of asset documents beside their shape: who may write which, and what they may refer to.

`check` gives every violation of a document that somebody wants to keep; `stamped` is the document as it is kept, with
owner and times. An asset belongs to whoever made it first; admins change anything and make nobody else the owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.admission.locations import Locations, no_directory
from shared.admission.references import secret_violation, unknown_upload
from shared.catalog import (
    Asker,
    Catalog,
    CatalogDocument,
    CodeSet,
    Dataset,
    Entry,
    Group,
    Image,
    Model,
    Project,
    Secret,
    Storage,
    User,
    is_member,
    may_change,
    may_use,
)
from shared.catalog.access import DEFAULT_PROJECT, asker_named
from shared.catalog.assets import GitRepository
from shared.catalog.base import Members
from shared.catalog.fields import FILE_SCHEME, file_path, place_of
from shared.catalog.view import DocumentT
from shared.documents.fields import shown
from shared.errors import ConflictError, ForbiddenError, Violation
from shared.jobspec.models import API_VERSION
from shared.jobspec.rules.sources import is_image_address, path_collisions

ASSET_KINDS: Final[Mapping[str, type[CatalogDocument]]] = {
    kind.plural(): kind for kind in (Storage, Dataset, Model, Image, CodeSet, Secret, Project)
}
_CODE_SOURCES: Final = ("upload", "directory", "inline", "git")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a document is judged against.

    `uploads` are the digests in question that are really kept, `missing` the paths in question at which there is
    nothing.
    """

    asker: Asker
    catalog: Catalog
    locations: Locations
    uploads: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()

    def owner_of(self, document: CatalogDocument) -> Asker:
        """Who the document belongs to once it is kept."""
        kept = self.catalog.get(type(document), document.name)
        return asker_named(kept.owner or "", self.catalog) if kept else self.asker


def is_listed(document: CatalogDocument, asker: Asker) -> bool:
    """Whether the asker sees the document."""
    match document:
        case Storage() | Dataset() | Model() | CodeSet():
            return may_use(document.owner, document.spec.access, asker)
        case Image():
            return document.spec.type == "platform" or may_use(document.owner, document.spec.access, asker)
        case Project():
            is_common = document.name == DEFAULT_PROJECT
            return is_common or may_change(document.owner, asker) or is_member(document.spec.members, asker)
        case Secret():
            return may_change(document.owner, asker) or is_member(document.spec.access, asker)
    return asker.admin


def check_may_write(kind: type[CatalogDocument], entry: Entry[CatalogDocument] | None, name: str, asker: Asker) -> None:
    """Raise ForbiddenError, or ConflictError where the name is taken by something that the asker does not see."""
    if kind is Storage and not asker.admin:
        raise ForbiddenError("a storage opens a directory of the platform to users; only an admin may apply one")
    if entry is None or may_change(entry.document.owner, asker):
        return
    if is_listed(entry.document, asker):
        owner = entry.document.owner
        raise ForbiddenError(
            f"the {kind.SINGULAR} {shown(name)} belongs to {owner}; only they and admins may change it"
        )
    raise ConflictError(f"the name {shown(name)} is taken among the {kind.plural()}; choose another")


def check_may_make(document: CatalogDocument, asker: Asker) -> None:
    """Raise ForbiddenError where only an admin may keep such a document."""
    if isinstance(document, Image) and document.spec.type == "platform" and not asker.admin:
        raise ForbiddenError("platform images are for everybody; only an admin may apply one, so use type: custom")
    if isinstance(document, Project) and document.name == DEFAULT_PROJECT and not asker.admin:
        raise ForbiddenError("everybody is in the project 'default'; only an admin may apply it, to set its quotas")


def check(document: CatalogDocument, setting: Setting) -> tuple[Violation, ...]:
    """Everything that is wrong with the document beside its shape."""
    return tuple(_violations(document, setting))


def stamped(
    document: DocumentT, before: Entry[DocumentT] | None, now: datetime, *, owner: str | None = None
) -> DocumentT:
    """The document as it is kept; `owner` is who makes it, where the kind has owners."""
    old = before.document.metadata if before else None
    metadata = document.metadata.model_copy(
        update={
            "id": document.id,
            "owner": old.owner if old else owner,
            "created_at": old.created_at if old else now,
            "updated_at": now,
            "sequence": None,
        }
    )
    return document.model_copy(update={"metadata": metadata, "status": None})


def _violations(document: CatalogDocument, setting: Setting) -> Iterator[Violation]:
    match document:
        case Storage():
            yield from _given(setting.locations.storage_violation(place_of(document.spec.uri), "/spec/uri"))
            yield from _directory(document.spec.uri, "/spec/uri", setting)
        case Dataset() | Model():
            yield from _location(document.spec.uri, "/spec/uri", setting)
        case Image():
            yield from _image_address(document)
            yield from _pull_secret(document.spec.pull_secret, setting.owner_of(document), setting)
        case CodeSet():
            yield from _code_source(document, setting)
        case Secret():
            yield from _secret_value(document, setting)
        case Project():
            yield from _no_members_of_default(document)
            yield from _quotas(document, setting)
            yield from _pull_secret(document.spec.pull_secret, setting.owner_of(document), setting)
            yield from missing_members(document.spec.members, "/spec/members", setting.catalog)
    if isinstance(document, Storage | Dataset | Model | Image | CodeSet | Secret):
        yield from missing_members(document.spec.access, "/spec/access", setting.catalog)


def _location(uri: str, pointer: str, setting: Setting) -> Iterator[Violation]:
    yield from _given(setting.locations.data_violation(place_of(uri), pointer, setting.asker, setting.catalog))


def paths_of(document: CatalogDocument) -> tuple[str, ...]:
    """Directories that must be there; those of datasets and models may come to be later, by a job that writes them."""
    match document:
        case Storage():
            uris: tuple[str | None, ...] = (document.spec.uri,)
        case CodeSet():
            uris = (document.spec.directory, document.spec.git.url if document.spec.git else None)
        case _:
            uris = ()
    return tuple(file_path(uri) for uri in uris if uri is not None and uri.startswith(FILE_SCHEME))


def _directory(uri: str, pointer: str, setting: Setting) -> Iterator[Violation]:
    if place_of(uri) in setting.missing:
        yield no_directory(place_of(uri), pointer)


def _image_address(image: Image) -> Iterator[Violation]:
    if not is_image_address(image.spec.address):
        sentence = f"{shown(image.spec.address)} is no image address; give one such as registry.example/team/image:tag"
        yield Violation("/spec/address", "image-address-invalid", sentence)


def _pull_secret(secret: str | None, owner: Asker, setting: Setting) -> Iterator[Violation]:
    """It is opened on behalf of whoever owns the document, whoever runs the job."""
    if secret is not None:
        yield from _given(secret_violation(secret, "/spec/pullSecret", setting.catalog, owner))


def _code_source(code: CodeSet, setting: Setting) -> Iterator[Violation]:
    spec = code.spec
    given = [source for source in _CODE_SOURCES if getattr(spec, source) is not None]
    if len(given) != 1:
        what = " and ".join(given) or "none"
        choices = "upload, directory, inline and git"
        yield Violation("/spec", "code-source", f"give exactly one of {choices}; this has {what}")
    if spec.inline is not None and not spec.inline:
        yield Violation("/spec/inline", "too-few", "there is no file; give at least one path with its text")
    yield from path_collisions(spec.inline or (), ("spec", "inline"))
    if spec.upload is not None and spec.upload not in setting.uploads:
        yield unknown_upload("/spec/upload")
    if spec.directory is not None:
        yield from _location(spec.directory, "/spec/directory", setting)
        yield from _directory(spec.directory, "/spec/directory", setting)
    if spec.git is not None:
        yield from _repository(spec.git, setting.owner_of(code), setting)


def _repository(git: GitRepository, owner: Asker, setting: Setting) -> Iterator[Violation]:
    if git.url.startswith(FILE_SCHEME):
        yield from _location(git.url, "/spec/git/url", setting)
        yield from _directory(git.url, "/spec/git/url", setting)
    if git.secret is None:
        return
    if git.url.startswith(FILE_SCHEME):
        sentence = "a repository on this machine is read without a secret; leave this out"
        yield Violation("/spec/git/secret", "secret-not-used", sentence)
        return
    yield from _given(secret_violation(git.secret, "/spec/git/secret", setting.catalog, owner))


def _secret_value(secret: Secret, setting: Setting) -> Iterator[Violation]:
    if secret.spec.value is None and setting.catalog.get(Secret, secret.name) is None:
        yield Violation("/spec/value", "required", "value is missing; a new secret needs one")


def without_value(document: DocumentT) -> DocumentT:
    """The document as the catalog keeps it: a secret's value is kept elsewhere."""
    if not isinstance(document, Secret):
        return document
    return document.model_copy(update={"spec": document.spec.model_copy(update={"value": None})})


def _no_members_of_default(project: Project) -> Iterator[Violation]:
    if project.name == DEFAULT_PROJECT and project.spec.members != Members():
        sentence = "every user has jobs in the project 'default', and sees their own; it has no members, leave them out"
        yield Violation("/spec/members", "no-members", sentence)


def default_project() -> Project:
    """The project that is there without a document."""
    metadata = {"name": DEFAULT_PROJECT}
    return Project.model_validate({"apiVersion": API_VERSION, "kind": "Project", "metadata": metadata})


def _quotas(project: Project, setting: Setting) -> Iterator[Violation]:
    before = setting.catalog.get(Project, project.name)
    if not setting.asker.admin and project.spec.quotas != (before.spec.quotas if before else None):
        yield Violation("/spec/quotas", "admins-only", "only admins change quotas; leave them as they are")


def missing_members(members: Members, pointer: str, catalog: Catalog) -> Iterator[Violation]:
    """A violation for every user and group that is named and does not exist."""
    yield from missing(User, members.users, f"{pointer}/users", catalog)
    yield from missing(Group, members.groups, f"{pointer}/groups", catalog)


def missing(kind: type[CatalogDocument], names: Iterable[str], pointer: str, catalog: Catalog) -> Iterator[Violation]:
    """A violation for every name in a list that no document of the kind has."""
    for index, name in enumerate(names):
        if catalog.get(kind, name) is None:
            yield Violation(
                f"{pointer}/{index}", f"unknown-{kind.SINGULAR}", f"there is no {kind.SINGULAR} {shown(name)}"
            )


def _given(violation: Violation | None) -> Iterator[Violation]:
    if violation is not None:
        yield violation
