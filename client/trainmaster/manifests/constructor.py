"""Constructs JSON values out of YAML nodes, and notes where in the file each of them stands.

Places are kept by RFC 6901 pointer, in which the platform names what is wrong. A fault does not end the work: all are
found in one pass. Only aliases that multiply beyond the limits do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from trainmaster.manifests.composer import MAX_DEPTH, MappingNode, Node, ScalarNode, SequenceNode
from trainmaster.manifests.scalars import Scalar, plain_value
from trainmaster.manifests.source import MAX_SOURCE_BYTES, Fault, ManifestError, Source, Span

MAX_NODES: Final = 30_000
MAX_CHARACTERS: Final = 8 * MAX_SOURCE_BYTES  # of values and of the pointers that lead to them


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands, and its key where it has one."""

    value: Span
    key: Span | None
    is_scalar: bool


@dataclass(slots=True)
class Constructor:
    """Builds one document; `faults` and `places` fill while it does."""

    source: Source
    places: dict[str, Place] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    _nodes: int = 0
    _characters: int = 0

    def construct(self, node: Node, pointer: str = "", key: Span | None = None, depth: int = 0) -> Any:
        """The node's JSON value."""
        self._count(node, pointer, depth)
        self.places[pointer] = Place(node.span, key, isinstance(node, ScalarNode))
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if isinstance(node, SequenceNode):
            return [self.construct(item, f"{pointer}/{i}", depth=depth + 1) for i, item in enumerate(node.items)]
        return self._mapping(node, pointer, depth)

    def _scalar(self, node: ScalarNode) -> Scalar:
        try:
            return _value(node)
        except ValueError as error:
            self._fault(node.span, str(error))
            return None

    def _mapping(self, node: MappingNode, pointer: str, depth: int) -> dict[str, Any]:
        built: dict[str, Any] = {}
        first_lines: dict[str, int] = {}
        for key_node, value in node.entries:
            try:
                key = _key(key_node)
            except ValueError as error:
                self._fault(key_node.span, str(error))
                continue
            if key in built:
                self._fault(key_node.span, f"key {key!r} stands here twice; the first is in line {first_lines[key]}")
                continue
            first_lines[key] = key_node.span.line
            built[key] = self.construct(value, f"{pointer}/{escaped(key)}", key_node.span, depth + 1)
        return built

    def _count(self, node: Node, pointer: str, depth: int) -> None:
        self._nodes += 1
        self._characters += len(pointer) + (len(node.text) if isinstance(node, ScalarNode) else 0)
        if self._nodes > MAX_NODES or self._characters > MAX_CHARACTERS:
            self._give_up(node.span, f"the document has more than {MAX_NODES} values or {MAX_CHARACTERS} characters")
        if depth > MAX_DEPTH:
            self._give_up(node.span, f"nested deeper than {MAX_DEPTH} levels")

    def _give_up(self, span: Span, message: str) -> NoReturn:
        raise ManifestError(self.source, (*self.faults, Fault(span, f"{message} once its aliases are expanded")))

    def _fault(self, span: Span, message: str) -> None:
        self.faults.append(Fault(span, message))


def _value(node: ScalarNode) -> Scalar:
    """The scalar's value; raises ValueError where JSON cannot carry it."""
    return plain_value(node.text) if node.plain else _with_pairs_joined(node.text)


def _with_pairs_joined(text: str) -> str:
    """The text with JSON's way of escaping a character beyond U+FFFF, as two halves, undone."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("the text holds half of a surrogate pair, which is no character") from None


def _key(node: Node) -> str:
    """The key's text; raises ValueError where it is none."""
    if not isinstance(node, ScalarNode):
        raise ValueError("a key must be text, not a list or a mapping; quote it if brackets or braces are meant")  # noqa: TRY004  # the input's fault
    if node.plain and node.text == "<<":
        raise ValueError(
            "merge keys (<<) are not part of YAML 1.2; write the entries out, or use an alias for the whole"
        )
    key = _value(node)
    if not isinstance(key, str):
        raise ValueError(f'a key must be text; write it in quotes: "{node.text}"')  # noqa: TRY004  # the input's fault
    return key


def escaped(key: str) -> str:
    """The key as one token of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
