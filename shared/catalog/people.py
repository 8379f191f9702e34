"""Kinds that say who works here: projects with their quotas, users and groups."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from shared.catalog.base import NAMES_OF_USERS, ON_OFF, CatalogDocument, Members
from shared.catalog.fields import PASSWORD_MAX, PASSWORD_MIN, Password
from shared.documents.fields import Document, Name, Text

_AN_AMOUNT = "an integer from 0 to 10000000"

Amount = Annotated[StrictInt, Field(ge=0, le=10_000_000)]


class Quotas(Document):
    """How much the jobs of a project may have at one time; what is left out has no limit."""

    running_replicas: Amount | None = Field(None, description=_AN_AMOUNT)
    gpus: Amount | None = Field(None, description=_AN_AMOUNT)
    queued_jobs: Amount | None = Field(None, description=_AN_AMOUNT)


class ProjectSpec(Document):
    """Who works in it, and how much they may have."""

    members: Members = Field(Members(), description="an object with users and groups")
    quotas: Quotas | None = Field(None, description="an object with runningReplicas, gpus and queuedJobs")
    pull_secret: Name | None = Field(None, description="the name of a secret with a .dockerconfigjson")
    description: Text = Field("", description="a text")


class Project(CatalogDocument):
    """What jobs are grouped and billed by; its members see each other's jobs in it."""

    SINGULAR = "project"
    PREFIX = "pr"

    kind: Literal["Project"] = Field(description="'Project'")
    spec: ProjectSpec = Field(ProjectSpec(), description="an object with members and quotas")


class UserSpec(Document):
    """What a user may do. The password is written here and never kept in the catalog."""

    admin: StrictBool = Field(default=False, description=ON_OFF)
    disabled: StrictBool = Field(default=False, description=ON_OFF)
    email: Text = Field("", description="a text")
    password: Password | None = Field(None, description=f"a password of {PASSWORD_MIN} to {PASSWORD_MAX} characters")


class User(CatalogDocument):
    """Somebody who may log in."""

    SINGULAR = "user"
    PREFIX = "u"

    kind: Literal["User"] = Field(description="'User'")
    spec: UserSpec = Field(UserSpec(), description="an object with password, admin and disabled")


class GroupSpec(Document):
    """Who is in it."""

    members: tuple[Name, ...] = Field((), description=NAMES_OF_USERS)


class Group(CatalogDocument):
    """A name for several users."""

    SINGULAR = "group"
    PREFIX = "g"

    kind: Literal["Group"] = Field(description="'Group'")
    spec: GroupSpec = Field(GroupSpec(), description="an object with members")
