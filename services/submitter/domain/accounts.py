"""The rules about users and groups, which only admins write."""

from __future__ import annotations

from services.submitter.domain.assets import missing
from shared.auth.principal import Principal
from shared.catalog import (
    Catalog,
    CatalogDocument,
    CodeSet,
    Dataset,
    Group,
    Image,
    Model,
    Pool,
    Project,
    Secret,
    Storage,
    User,
)
from shared.catalog.kinds import KINDS
from shared.documents.fields import shown
from shared.errors import ConflictError, ForbiddenError, InvalidInputError, Violation


def check_admin(principal: Principal) -> None:
    """Raise ForbiddenError unless an admin asks."""
    if not principal.admin:
        raise ForbiddenError("only admins may read and write users and groups")


def check_may_read(kind: type[CatalogDocument], name: str, principal: Principal) -> None:
    """Admins read all, everybody their own user."""
    if not (kind is User and name == principal.name):
        check_admin(principal)


def check_user(user: User, before: User | None, catalog: Catalog) -> None:
    """Raise where a new user has no password, or the last admin would be gone."""
    if before is None and user.spec.password is None:
        sentence = "password is missing; a new user needs one"
        raise InvalidInputError((Violation("/spec/password", "required", sentence),))
    if not _is_active_admin(user):
        check_not_last_admin(user.name, catalog)


def check_new_name(name: str, catalog: Catalog, *, has_jobs: bool) -> None:
    """Raise ConflictError where a new user would be taken for an earlier one, as rights and jobs go by the name."""
    if has_jobs:
        raise ConflictError(
            f"there are jobs of an earlier user {shown(name)}, whose bills and history keep the name; choose another, "
            "and disable users who may come back instead of deleting them"
        )
    named = [
        f"{kind.SINGULAR} {shown(found.name)}" for kind in KINDS for found in catalog.all(kind) if _names(found, name)
    ]
    if named:
        raise ConflictError(
            f"an earlier user {shown(name)} is still named in {', '.join(named[:10])}; take the name out there first"
        )


def _names(document: CatalogDocument, user: str) -> bool:
    """Whether the document gives rights to this user by name."""
    match document:
        case Group():
            return user in document.spec.members
        case Pool() | Project():
            return user in document.spec.members.users
        case Storage() | Dataset() | Model() | Image() | CodeSet() | Secret():
            return user in document.spec.access.users
    return False


def check_not_last_admin(name: str, catalog: Catalog) -> None:
    """Raise ConflictError where nobody could administer the platform without this user."""
    admins = {user.name for user in catalog.all(User) if _is_active_admin(user)}
    if admins == {name}:
        raise ConflictError(f"{shown(name)} is the only admin; make another one first")


def check_group(group: Group, catalog: Catalog) -> None:
    """Raise where the group names users that do not exist."""
    unknown = tuple(missing(User, group.spec.members, "/spec/members", catalog))
    if unknown:
        raise InvalidInputError(unknown)


def check_deletable(user: User, catalog: Catalog, live_jobs: int) -> None:
    """Raise ConflictError where things would be left without an owner; ended jobs stay as history of the name."""
    check_not_last_admin(user.name, catalog)
    owned = [
        f"{kind.SINGULAR} {shown(found.name)}"
        for kind in KINDS
        for found in catalog.all(kind)
        if found.owner == user.name
    ]
    if owned:
        raise ConflictError(f"{shown(user.name)} owns {', '.join(owned[:10])}; delete that first, or disable the user")
    if live_jobs:
        raise ConflictError(f"{shown(user.name)} has {live_jobs} live jobs; stop them first, or disable the user")


def without_password(user: User) -> User:
    """The user as the catalog keeps it."""
    return user.model_copy(update={"spec": user.spec.model_copy(update={"password": None})})


def rights_changed(user: User, before: User | None) -> bool:
    """Whether tokens that the user has must not be good any more."""
    if before is None:
        return False
    was, now = before.spec, user.spec
    return now.password is not None or (was.admin, was.disabled) != (now.admin, now.disabled)


def _is_active_admin(user: User) -> bool:
    return user.spec.admin and not user.spec.disabled
