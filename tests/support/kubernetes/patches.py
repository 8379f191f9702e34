"""The three kinds of patches: JSON patch, merge patch, and Kubernetes' strategic merge patch.

The strategic one merges lists of objects by the key that names their members (containers by `name`, conditions by
`type`) and knows the directives `$patch: delete`, `$patch: replace` and `$deleteFromPrimitiveList/…`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from tests.support.kubernetes.errors import bad_request, unsupported_media
from tests.support.kubernetes.resources import Json

MERGE_KEYS: Final = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "schedulingGates": "name",
    "taints": "key",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
MERGED_SETS: Final = {"finalizers"}


def patched(item: Json, patch: Any, media_type: str) -> Json:
    """The object as it is after the patch."""
    if media_type == "application/json-patch+json":
        return _json_patched(item, patch)
    if media_type == "application/merge-patch+json":
        merged: Json = _merged(item, patch)
        return merged
    if media_type == "application/strategic-merge-patch+json":
        changed: Json = _strategic(item, patch)
        return changed
    raise unsupported_media(media_type)


def _merged(item: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return deepcopy(patch)
    result = dict(item) if isinstance(item, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _strategic(item: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {key: deepcopy(value) for key, value in patch.items() if key != "$patch"}
    result = dict(item) if isinstance(item, dict) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            result[field] = [each for each in result.get(field, []) if each not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, list):
            result[key] = _strategic_list(key, result.get(key) or [], value)
        else:
            result[key] = _strategic(result.get(key), value)
    return result


def _strategic_list(field: str, items: list[Any], patch: list[Any]) -> list[Any]:
    if field in MERGED_SETS:
        return [*items, *(each for each in patch if each not in items)]
    key = MERGE_KEYS.get(field)
    if key is None or not all(isinstance(each, dict) for each in patch):
        return deepcopy(patch)
    if any(each.get("$patch") == "replace" for each in patch):
        return [deepcopy(each) for each in patch if each.get("$patch") != "replace"]
    members = {each.get(key): each for each in items}
    for each in patch:
        name = each.get(key)
        if each.get("$patch") == "delete":
            members.pop(name, None)
        else:
            members[name] = _strategic(members.get(name), each)
    return list(members.values())


def _json_patched(item: Json, patch: Any) -> Json:
    if not isinstance(patch, list):
        raise bad_request("a JSON patch is a list of operations")
    result = deepcopy(item)
    for operation in patch:
        _apply(result, operation)
    return result


def _apply(document: Json, operation: Json) -> None:
    verb = operation.get("op")
    if verb in {"move", "copy"}:
        value = _value(document, operation["from"])
        if verb == "move":
            _apply(document, {"op": "remove", "path": operation["from"]})
        _apply(document, {"op": "add", "path": operation["path"], "value": deepcopy(value)})
        return
    parent, last = _place(document, operation["path"])
    if verb == "test":
        if _value(document, operation["path"]) != operation.get("value"):
            raise bad_request(f"testing path {operation['path']} value failed")
    elif verb == "remove":
        _value(document, operation["path"])
        del parent[last]
    elif verb == "add" and isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else int(last), operation["value"])
    elif verb in {"add", "replace"}:
        if verb == "replace":
            _value(document, operation["path"])
        parent[last] = operation["value"]
    else:
        raise bad_request(f"unknown operation of a JSON patch: {verb}")


def _place(document: Any, path: str) -> tuple[Any, Any]:
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    for part in parents:
        document = _step(document, part, path)
    return document, int(last) if isinstance(document, list) and last != "-" else last


def _value(document: Any, path: str) -> Any:
    parent, last = _place(document, path)
    return _step(parent, last, path)


def _step(document: Any, part: Any, path: str) -> Any:
    try:
        return document[int(part)] if isinstance(document, list) else document[part]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise bad_request(f"the path {path} does not exist") from error
