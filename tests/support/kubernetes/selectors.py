"""Label and field selectors of lists and watches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tests.support.kubernetes.errors import bad_request
from tests.support.kubernetes.resources import Json, Resource

SET_TERM: Final = re.compile(r"^(?P<key>[\w./-]+)\s+(?P<op>in|notin)\s+\((?P<values>[^)]*)\)$")
TERM_END: Final = re.compile(r",(?![^(]*\))")
COMPARISON: Final = re.compile(r"^(?P<key>[\w./-]+)\s*(?P<op>==|!=|=)\s*(?P<value>[\w.-]*)$")
BARE: Final = re.compile(r"^(?P<no>!?)\s*(?P<key>[\w./-]+)$")

Test = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True)
class Selector:
    """What a list or watch is narrowed to."""

    labels: tuple[Test, ...] = ()
    fields: tuple[tuple[str, bool, str], ...] = ()
    namespace: str | None = None

    def matches(self, item: Json) -> bool:
        metadata = item["metadata"]
        if self.namespace is not None and metadata.get("namespace") != self.namespace:
            return False
        labels = metadata.get("labels") or {}
        return all(test(labels) for test in self.labels) and all(
            (_field(item, path) == value) is wanted for path, wanted, value in self.fields
        )


def selector(resource: Resource, namespace: str | None, labels: str, fields: str) -> Selector:
    """What the query of a list or watch asks for."""
    return Selector(
        tuple(_label_test(term.strip()) for term in TERM_END.split(labels) if term.strip()),
        tuple(_field_term(resource, term.strip()) for term in fields.split(",") if term.strip()),
        namespace,
    )


def _label_test(term: str) -> Test:
    if (found := SET_TERM.match(term)) is not None:
        values = {each.strip() for each in found["values"].split(",")}
        return _within(found["key"], values, found["op"] == "in")
    if (found := COMPARISON.match(term)) is not None:
        return _within(found["key"], {found["value"]}, found["op"] != "!=")
    if (found := BARE.match(term)) is not None:
        key, wanted = found["key"], not found["no"]
        return lambda labels: (key in labels) is wanted
    raise bad_request(f"unable to parse requirement: found '{term}', expected: in, notin, =, ==, !=, or a key")


def _within(key: str, values: set[str], wanted: bool) -> Test:
    if wanted:
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values


def _field_term(resource: Resource, term: str) -> tuple[str, bool, str]:
    found = COMPARISON.match(term)
    if found is None:
        raise bad_request(f"invalid field selector: {term}; can't understand '{term}'")
    path = found["key"]
    if path not in resource.selectable and path not in {"metadata.name", "metadata.namespace"}:
        raise bad_request(
            f'Unable to find "{resource.api_version}, Resource={resource.plural}" that match label selector "", '
            f'field selector "{term}": field label not supported: {path}'
        )
    return path, found["op"] != "!=", found["value"]


def _field(item: Json, path: str) -> str:
    value: object = item
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
