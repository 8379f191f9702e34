"""What a container of a pod is to run: its command and variables, with Kubernetes' own expansion done.

`$(NAME)` is replaced by a variable that is known at that point, and `$$` by `$`, in commands, arguments and values.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tests.support.kubernetes.resources import Json

REFERENCE: Final = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")

Fetch = Callable[[str, str], Awaitable[Json]]
"""An object of the pod's namespace by plural and name."""


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text as the container gets it; what is unknown stays as it is written."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[1] is None else variables.get(found[1], found[0])

    return REFERENCE.sub(value, text)


def command_of(container: Json, variables: Mapping[str, str]) -> list[str]:
    """The command line; images are not looked at, so it has to be said."""
    if not container.get("command"):
        raise ValueError(f"container {container['name']}: its image's own command is not known here; say `command`")
    return [expanded(part, variables) for part in (*container["command"], *container.get("args", []))]


async def variables_of(container: Json, pod: Json, image: Mapping[str, str], fetch: Fetch) -> dict[str, str]:
    """The container's variables, over those of its image."""
    variables = dict(image)
    for source in container.get("envFrom") or []:
        prefix = source.get("prefix", "")
        plural, reference = _reference(source, "configMapRef", "secretRef")
        held = texts(await fetch(plural, reference["name"]))
        variables |= {prefix + key: value.decode() for key, value in held.items()}
    for each in container.get("env") or []:
        if "valueFrom" in each:
            variables[each["name"]] = await _value(each["valueFrom"], pod, fetch)
        else:
            variables[each["name"]] = expanded(each.get("value", ""), variables)
    return variables


def texts(item: Json) -> dict[str, bytes]:
    """What a ConfigMap or Secret holds, by key."""
    plain = {} if item["kind"] == "Secret" else item.get("data") or {}
    encoded = item.get("data") or {} if item["kind"] == "Secret" else item.get("binaryData") or {}
    return {
        **{key: value.encode() for key, value in plain.items()},
        **{key: base64.b64decode(value) for key, value in encoded.items()},
    }


async def _value(source: Json, pod: Json, fetch: Fetch) -> str:
    if "fieldRef" in source:
        return field_of(pod, source["fieldRef"]["fieldPath"])
    plural, reference = _reference(source, "configMapKeyRef", "secretKeyRef")
    return texts(await fetch(plural, reference["name"]))[reference["key"]].decode()


def field_of(pod: Json, path: str) -> str:
    """A field of the pod by the downward API."""
    if (found := SUBSCRIPT.fullmatch(path)) is not None:
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    value: object = pod
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


def _reference(source: Json, config_map: str, secret: str) -> tuple[str, Json]:
    if config_map in source:
        return "configmaps", source[config_map]
    if secret in source:
        return "secrets", source[secret]
    raise ValueError(f"variables from {', '.join(source)} are not known here")
