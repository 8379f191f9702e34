"""Composes YAML events into trees of nodes, one a document, within limits.

The events come from PyYAML's parser, which does not recurse; how deep nodes may nest is checked here, before the stack
is in danger. An alias is the very node it refers to, so a tree of nodes is never larger than its text; `constructor`
limits what comes of it when it is expanded. An anchor exists once its node is complete: no node contains itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import yaml

from trainmaster.manifests.source import Fault, ManifestError, Source, Span

MAX_DEPTH: Final = 64
_ADVICE: Final = {
    "mapping values are not allowed here": "a second `: ` in this line; put text that holds one in quotes",
    "found character '`' that cannot start any token": "text cannot begin with ` unless it is in quotes",
    "found character '@' that cannot start any token": "text cannot begin with @ unless it is in quotes",
    "found character '%' that cannot start any token": "text cannot begin with % unless it is in quotes",
    "expected <block end>, but found '<block mapping start>'": "this is indented unlike the lines above it",
    "expected <block end>, but found '<scalar>'": "this is indented unlike the lines above it, or a quote is missing",
}
_TEXT_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A scalar; a `plain` one has its meaning yet to be found."""

    span: Span
    text: str
    plain: bool


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list."""

    span: Span
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MappingNode:
    """Keys and values, in order, repeated ones included."""

    span: Span
    entries: tuple[tuple[Node, Node], ...]


Node: TypeAlias = ScalarNode | SequenceNode | MappingNode


def compose(source: Source) -> Iterator[Node]:
    """The root of each document that is not empty; raises ManifestError at the first fault."""
    composer = _Composer(source)
    try:
        yield from composer.documents()
    except yaml.MarkedYAMLError as error:
        raise ManifestError(source, (_syntax_fault(source, error),)) from error
    except (ValueError, OverflowError) as error:  # PyYAML asks for a character beyond the last one
        fault = Fault(composer.reached, "what follows here has an escape that names no character")
        raise ManifestError(source, (fault,)) from error


class _Composer:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._events = self._watched(yaml.parse(source.text, Loader=yaml.SafeLoader))
        self._anchors: dict[str, Node] = {}
        self.reached = Span(1, 1, 2)

    def _watched(self, events: Iterator[Any]) -> Iterator[Any]:
        for event in events:
            self.reached = _span(event)
            yield event

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                root = self._node(next(self._events), 0)
                if root != ScalarNode(root.span, "", plain=True):
                    yield root

    def _node(self, event: Any, depth: int) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self._referred(event)
        if depth > MAX_DEPTH:
            raise self._error(event, f"nested deeper than {MAX_DEPTH} levels")
        node = self._composed(event, depth)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _composed(self, event: Any, depth: int) -> Node:
        span = _span(event)
        if isinstance(event, yaml.SequenceStartEvent):
            self._refuse_tag(event, accepted=frozenset({"tag:yaml.org,2002:seq"}))
            items = tuple(self._node(item, depth + 1) for item in self._until(yaml.SequenceEndEvent))
            return SequenceNode(span, items)
        if isinstance(event, yaml.MappingStartEvent):
            self._refuse_tag(event, accepted=frozenset({"tag:yaml.org,2002:map"}))
            keys = self._until(yaml.MappingEndEvent)
            entries = tuple((self._node(key, depth + 1), self._node(next(self._events), depth + 1)) for key in keys)
            return MappingNode(span, entries)
        self._refuse_tag(event, accepted=_TEXT_TAGS)
        return ScalarNode(span, event.value, plain=event.style is None and event.tag is None)

    def _until(self, end: type[Any]) -> Iterator[Any]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield event

    def _referred(self, event: Any) -> Node:
        if event.anchor not in self._anchors:
            raise self._error(event, f"*{event.anchor} refers to no anchor &{event.anchor} before it")
        return self._anchors[event.anchor]

    def _refuse_tag(self, event: Any, accepted: frozenset[str]) -> None:
        if event.tag is not None and event.tag not in accepted:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise self._error(event, f"tag {tag} is not accepted; leave it out (quotes make a value text)")

    def _error(self, event: Any, message: str) -> ManifestError:
        return ManifestError(self._source, (Fault(_span(event), message),))


def _span(event: Any) -> Span:
    start, end = event.start_mark, event.end_mark
    one_line = end.line == start.line and end.column > start.column
    return Span(start.line + 1, start.column + 1, end.column + 1 if one_line else start.column + 2)


def _syntax_fault(source: Source, error: yaml.MarkedYAMLError) -> Fault:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    message = error.problem or str(error)
    if source.line(line)[column - 1 : column] == "\t":
        message = "a tab cannot stand here; YAML is indented with spaces"
    elif message in _ADVICE:
        message = _ADVICE[message]
    elif error.context and error.context_mark and error.context_mark.line + 1 != line:
        message += f" ({error.context} that begins in line {error.context_mark.line + 1})"
    return Fault(Span(line, column, column + 1), message)
