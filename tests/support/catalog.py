"""Small builders of catalog documents, and a catalog that holds them."""

from __future__ import annotations

import json
from typing import Any

from shared.catalog import Catalog, CatalogDocument, Dataset, Group, Image, InstanceType, Pool, Project, Secret, Storage
from shared.catalog.view import DocumentT
from shared.documents import must_parse


def made(kind: type[DocumentT], name: str, spec: dict[str, Any], owner: str | None = None) -> DocumentT:
    metadata = {"name": name} | ({"owner": owner} if owner else {})
    return must_parse(kind, {"apiVersion": "trainmaster/v1", "kind": kind.__name__, "metadata": metadata, "spec": spec})


def dataset(name: str, uri: str = "file:///data/set", owner: str = "ann", **access: Any) -> Dataset:
    return made(Dataset, name, {"uri": uri, "access": access}, owner)


def storage(name: str, uri: str = "file:///data/team", owner: str = "root", **access: Any) -> Storage:
    return made(Storage, name, {"uri": uri, "access": access}, owner)


def image(name: str, address: str = "registry.example/x:1", kind: str = "platform", **access: Any) -> Image:
    return made(Image, name, {"type": kind, "address": address, "access": access}, "ann")


def secret(name: str, owner: str = "ada", **access: Any) -> Secret:
    return made(Secret, name, {"access": access}, owner)


def group(name: str, *members: str) -> Group:
    return made(Group, name, {"members": list(members)})


def project(name: str, owner: str = "ann", **members: Any) -> Project:
    return made(Project, name, {"members": members}, owner)


def pool(name: str = "main", **spec: Any) -> Pool:
    return made(Pool, name, spec)


def instance_type(name: str = "cpu-small", pools: tuple[str, ...] = ("main",), **spec: Any) -> InstanceType:
    fields = {"cpu": "1", "memory": "1Gi", "pools": list(pools), "pricePerHour": "0.1", **spec}
    return made(InstanceType, name, fields)


def catalog_of(*documents: CatalogDocument) -> Catalog:
    catalog = Catalog()
    for revision, document in enumerate(documents, start=1):
        catalog.apply(document.key_of(document.name), json.dumps(document.document()).encode(), revision)
    return catalog
