"""Who may use and change what: pure rules over documents and an asker.

An asker is a user with their groups. Ownership goes by user name, which stands for one user id for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.auth.principal import Principal
from shared.catalog.assets import Secret
from shared.catalog.base import Access, Members
from shared.catalog.people import Group, Project, User
from shared.catalog.places import Pool
from shared.catalog.view import Catalog

DEFAULT_PROJECT = "default"


@dataclass(frozen=True, slots=True)
class Asker:
    """A user, whether an admin, and the groups they are in."""

    name: str
    admin: bool = False
    groups: frozenset[str] = frozenset()


def asker_of(principal: Principal, catalog: Catalog) -> Asker:
    """The principal with their groups."""
    return Asker(principal.name, principal.admin, groups_of(principal.name, catalog))


def asker_named(name: str, catalog: Catalog) -> Asker:
    """The user of this name with what the catalog says of them; without any rights where there is none."""
    user = catalog.get(User, name)
    return Asker(name, user is not None and user.spec.admin, groups_of(name, catalog))


def groups_of(user: str, catalog: Catalog) -> frozenset[str]:
    """Groups that the user is in."""
    return frozenset(group.name for group in catalog.all(Group) if user in group.spec.members)


def is_member(members: Members, asker: Asker) -> bool:
    """Whether the asker is listed, by name or through a group."""
    return asker.name in members.users or not asker.groups.isdisjoint(members.groups)


def may_use(owner: str | None, access: Access, asker: Asker) -> bool:
    """Whether the asker may see and use an asset: public, their own, shared with them, or they are an admin."""
    return access.public or asker.admin or owner == asker.name or is_member(access, asker)


def may_use_secret(secret: Secret, asker: Asker) -> bool:
    """Whether jobs of the asker may have the value: their own, or shared with them. Being an admin does not help."""
    return secret.owner == asker.name or is_member(secret.spec.access, asker)


def may_change(owner: str | None, asker: Asker) -> bool:
    """Whether the asker may change or delete a document: its owner and admins."""
    return asker.admin or owner == asker.name


def may_use_pool(pool: Pool, asker: Asker) -> bool:
    """Whether the asker may run jobs in the pool and see it listed."""
    return pool.spec.type == "public" or asker.admin or is_member(pool.spec.members, asker)


def may_use_project(project: Project, asker: Asker) -> bool:
    """Whether the asker may submit jobs into the project and see those of others in it."""
    return may_change(project.owner, asker) or is_member(project.spec.members, asker)


def projects_of(asker: Asker, catalog: Catalog) -> tuple[str, ...]:
    """Projects whose jobs the asker sees, whoever owns them; never the one that everybody is in."""
    usable = (project.name for project in catalog.all(Project) if may_use_project(project, asker))
    return tuple(name for name in usable if name != DEFAULT_PROJECT)
