r"""Changes to a document that are written as `path=value`, as `trainmaster rerun --set` takes them.

A path is the keys down to the value, with dots between them: `spec.roles.0.replicas`. Positions in lists are numbers
from 0, and the position after the last adds an item; a dot within a key is written as `\.`. The value is YAML; `null`
takes away what is there. Objects on the way are made where they are missing.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainmaster.errors import InputError
from trainmaster.manifests.composer import compose
from trainmaster.manifests.constructor import Constructor
from trainmaster.manifests.source import ManifestError, decoded

_DOT: Final = re.compile(r"(?<!\\)\.")


@dataclass(frozen=True, slots=True)
class Change:
    """One value to set; None takes away what is at the path."""

    path: tuple[str, ...]
    value: Any

    @property
    def written(self) -> str:
        """The path as the user writes it."""
        return ".".join(key.replace(".", "\\.") for key in self.path)


def parse_change(text: str) -> Change:
    """The change that `path=value` describes; raises InputError."""
    path, equals, value = text.partition("=")
    keys = tuple(key.replace("\\.", ".") for key in _DOT.split(path))
    if not equals or not value.strip() or not all(keys):
        raise InputError(f"{text!r} is no change; write it as in spec.roles.0.replicas=4, or =null to take it away")
    try:
        return Change(keys, _yaml_value(value))
    except ManifestError as error:
        raise InputError(f"the value of {path} is no YAML: {error.faults[0].message}; quote it, perhaps") from error


def _yaml_value(text: str) -> Any:
    source = decoded("the value", text.encode("utf-8", "surrogateescape"))
    nodes = list(compose(source))
    if len(nodes) != 1:
        raise InputError(f"{text!r} is no single YAML value")
    constructor = Constructor(source)
    value = constructor.construct(nodes[0])
    if constructor.faults:
        raise ManifestError(source, tuple(constructor.faults))
    return value


def changed(document: Mapping[str, Any], changes: Iterable[Change]) -> dict[str, Any]:
    """A copy of the document with every change made, in their order; raises InputError where there is no such path."""
    copied: dict[str, Any] = copy.deepcopy(dict(document))
    for change in changes:
        _make(copied, change)
    return copied


def _make(document: dict[str, Any], change: Change) -> None:
    here: Any = document
    *parents, last = change.path
    for depth, key in enumerate(parents):
        here = _child(here, key, change, depth)
    if isinstance(here, list):
        _set_item(here, last, change)
    elif not isinstance(here, dict):
        raise _no_place(change, len(parents), f"{_kind(here)}, which has no parts")
    elif change.value is None:
        here.pop(last, None)
    else:
        here[last] = change.value


def _child(here: Any, key: str, change: Change, depth: int) -> Any:
    if isinstance(here, dict):
        return here.setdefault(key, {})
    if isinstance(here, list):
        return here[_position(here, key, change, depth, end=len(here))]
    raise _no_place(change, depth, f"{_kind(here)}, which has no parts")


def _set_item(items: list[Any], key: str, change: Change) -> None:
    position = _position(items, key, change, len(change.path) - 1, end=len(items) + (change.value is not None))
    if change.value is None:
        del items[position]
    else:
        items[position : position + 1] = [change.value]


def _position(items: list[Any], key: str, change: Change, depth: int, *, end: int) -> int:
    if not (key.isascii() and key.isdigit() and int(key) < end):
        there = f"a list of {len(items)}; its items are 0 to {len(items) - 1}" if items else "an empty list"
        raise _no_place(change, depth, there)
    return int(key)


def _no_place(change: Change, depth: int, there: str) -> InputError:
    upto = ".".join(change.path[:depth]) or "the document"
    return InputError(f"{change.written} leads nowhere: {upto} is {there}")


def _kind(value: object) -> str:
    return {str: "text", bool: "true or false", int: "a number", float: "a number"}.get(type(value), "nothing")
