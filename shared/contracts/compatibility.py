"""Whether a new schema of an event still suits everybody who reads or stored the old one.

A producer may add an optional field. It may not remove or rename a field, change its type, require what was optional,
or take a value out of an enumeration: that is another `type` with a higher version. `breaking_changes` compares two
JSON Schemas with their references resolved and names each place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

Schema = Mapping[str, JsonValue]


def breaking_changes(old: Schema, new: Schema) -> list[str]:
    """Sentences, one a place where `new` breaks readers or samples of `old`; empty where it is compatible."""
    return list(_compare(_Node(old, old), _Node(new, new), ""))


class _Node:
    """A schema, and the document that its references point into."""

    def __init__(self, schema: JsonValue | Schema, root: Schema) -> None:
        self.root = root
        self.schema: Schema = self._resolved(schema)

    def _resolved(self, schema: JsonValue | Schema) -> Schema:
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        definitions = self.root.get("$defs")
        target = definitions.get(reference.rsplit("/", 1)[-1]) if isinstance(definitions, Mapping) else None
        return self._resolved(target)

    def child(self, schema: JsonValue) -> _Node:
        return _Node(schema, self.root)

    def names(self, key: str) -> set[str]:
        value = self.schema.get(key)
        return {str(name) for name in value} if isinstance(value, list) else set()

    def properties(self) -> dict[str, _Node]:
        value = self.schema.get("properties")
        return {name: self.child(schema) for name, schema in value.items()} if isinstance(value, Mapping) else {}

    def options(self) -> list[_Node]:
        value = self.schema.get("anyOf")
        return [self.child(option) for option in value] if isinstance(value, list) else []

    def kind(self) -> str:
        if options := self.options():
            return "|".join(sorted(option.kind() for option in options))
        return str(self.schema.get("type", "any"))


def _compare(old: _Node, new: _Node, place: str) -> Iterator[str]:
    here = place or "/"
    if old.kind() != new.kind():
        yield f"{here}: type {old.kind()} became {new.kind()}"
        return
    for value in sorted(old.names("enum") - new.names("enum")):
        yield f"{here}: value {value!r} was removed"
    if old.schema.get("const") != new.schema.get("const"):
        yield f"{here}: constant {old.schema.get('const')!r} became {new.schema.get('const')!r}"
    for name in sorted(new.names("required") - old.names("required")):
        yield f"{place}/{name}: is now required"
    yield from _compare_parts(old, new, place)


def _compare_parts(old: _Node, new: _Node, place: str) -> Iterator[str]:
    new_properties = new.properties()
    for name, schema in old.properties().items():
        if name in new_properties:
            yield from _compare(schema, new_properties[name], f"{place}/{name}")
        else:
            yield f"{place}/{name}: was removed"
    for key in ("items", "additionalProperties"):
        if isinstance(old.schema.get(key), Mapping):
            yield from _compare(old.child(old.schema[key]), new.child(new.schema.get(key)), f"{place}/{key}")
    for old_option, new_option in zip(_sorted(old), _sorted(new), strict=False):
        yield from _compare(old_option, new_option, place)


def _sorted(node: _Node) -> list[_Node]:
    return sorted(node.options(), key=_Node.kind)
