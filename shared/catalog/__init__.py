"""The catalog: pools, instance types, assets, projects, users and groups, kept in the KV bucket `catalog`.

`places`, `assets` and `people` have a model for each kind over that of `base`, and `kinds` lists them; `view` has the
pure look-ups over all documents, `access` who may use what; `watch` keeps a view up to date in a service's memory,
`store` writes one revision, `writer` reads, decides and writes. One service writes a kind, every service reads all.
"""

from shared.catalog.access import Asker, asker_of, is_member, may_change, may_use, may_use_pool, may_use_secret
from shared.catalog.assets import CodeSet, Dataset, Image, Model, Secret, Storage
from shared.catalog.base import CatalogDocument
from shared.catalog.people import Group, Project, User
from shared.catalog.places import Cluster, InstanceType, Pool
from shared.catalog.store import CatalogStore
from shared.catalog.view import Catalog, Entry
from shared.catalog.watch import CatalogWatch
from shared.catalog.writer import CatalogWriter, Written

__all__ = [
    "Asker",
    "Catalog",
    "CatalogDocument",
    "CatalogStore",
    "CatalogWatch",
    "CatalogWriter",
    "Cluster",
    "CodeSet",
    "Dataset",
    "Entry",
    "Group",
    "Image",
    "InstanceType",
    "Model",
    "Pool",
    "Project",
    "Secret",
    "Storage",
    "User",
    "Written",
    "asker_of",
    "is_member",
    "may_change",
    "may_use",
    "may_use_pool",
    "may_use_secret",
]
