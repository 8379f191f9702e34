"""All kinds of catalog documents that every service knows."""

from __future__ import annotations

from typing import Final

from shared.catalog.assets import CodeSet, Dataset, Image, Model, Secret, Storage
from shared.catalog.base import CatalogDocument
from shared.catalog.people import Group, Project, User
from shared.catalog.places import Cluster, InstanceType, Pool

KINDS: Final[tuple[type[CatalogDocument], ...]] = (
    Cluster,
    Pool,
    InstanceType,
    Storage,
    Dataset,
    Model,
    Image,
    CodeSet,
    Secret,
    Project,
    User,
    Group,
)
