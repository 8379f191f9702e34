"""The documents by which clients learn what an API server has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.support.kubernetes.errors import no_such_path
from tests.support.kubernetes.resources import Json, Resource

VERSION: Final[Json] = {"major": "1", "minor": "36", "gitVersion": "v1.36.2-test", "platform": "linux/amd64"}
VERBS: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def discovery(path: str, resources: Sequence[Resource]) -> Json | None:
    """The document at this path, or nothing where objects lie there."""
    fixed = {"version": VERSION, "api": {"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"]}}
    match [part for part in path.split("/") if part]:
        case [name] if name in fixed:
            return fixed[name]
        case ["apis"]:
            return _groups(resources)
        case ["api", "v1"]:
            return _resources("v1", [each for each in resources if not each.group])
        case ["apis", group]:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(_of_group(resources, group))}
        case ["apis", group, _]:
            return _resources(path.removeprefix("/apis/"), _of_group(resources, group))
    return None


def _of_group(resources: Sequence[Resource], group: str) -> list[Resource]:
    found = [each for each in resources if each.group == group]
    if not found:
        raise no_such_path()
    return found


def _groups(resources: Sequence[Resource]) -> Json:
    names = dict.fromkeys(each.group for each in resources if each.group)
    groups = [_group(_of_group(resources, name)) for name in names]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(members: list[Resource]) -> Json:
    named = {"groupVersion": members[0].api_version, "version": members[0].version}
    return {"name": members[0].group, "versions": [named], "preferredVersion": named}


def _resources(group_version: str, members: list[Resource]) -> Json:
    rows: list[Json] = []
    for each in members:
        rows.append(_row(each.plural, each, VERBS))
        rows += [_row(f"{each.plural}/{sub}", each, ["create", "get", "patch", "update"]) for sub in each.subresources]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": rows}


def _row(name: str, resource: Resource, verbs: list[str]) -> Json:
    return {
        "name": name,
        "singularName": "" if "/" in name else resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs,
    }
