"""Which object or list a path of the API means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.support.kubernetes.errors import no_such_path
from tests.support.kubernetes.resources import NAMESPACES, Resource


@dataclass(frozen=True)
class Target:
    """What a request is about; without a name it is the list."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str, resources: Iterable[Resource]) -> Target:
    """Of `/api/v1/namespaces/a/pods/b/log` the pod's log."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    known = {each.plural: each for each in resources if (each.group, each.version) == (group, version)}
    namespace = ""
    if rest[0] == NAMESPACES.plural and len(rest) > 2 and rest[2] not in NAMESPACES.subresources:
        namespace, rest = rest[1], rest[2:]
    resource = known.get(rest[0])
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise no_such_path()
    _, name, subresource, *_ = [*rest, "", ""]
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    return Target(resource, namespace, name, subresource)
