r"""Finding the lines of a text that match a pattern, in time that grows with the text and with nothing else.

A pattern is a literal, found as bytes, or a regular expression, found by Hyperscan's automata: no expression and no
text can make a search slow. What that engine cannot do in linear time (look-around, back-references) it refuses.

What is searched is what is shown: lines end at `\n`, `\r\n` or `\r`, escape sequences are no part of them. Where a text
has none, which is the rule, it is searched as it is; else it is searched without them, and lines are told by their
number. An expression sees one line at a time: what it finds across two of them is looked at again in the second alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import hyperscan

from services.logs.domain.cleaning import without_sequences
from shared.errors import InvalidInputError, Violation

PATTERN_MAX_CHARS: Final = 512
_WHOLE_TEXT_ANCHORS: Final = ("\\A", "\\z", "\\Z")


@dataclass(frozen=True, slots=True)
class Pattern:
    """What to look for."""

    text: str
    regex: bool = False
    ignore_case: bool = False


class Matcher(Protocol):
    """Finds the next line that matches."""

    @property
    def literal(self) -> bytes:
        """Bytes that stand in every line that matches, in any case; empty where none are known."""
        ...

    def first(self, text: bytes, start: int) -> int | None:
        """A position in the next line behind `start` that matches, or may; `start` begins a line."""
        ...

    def confirms(self, line: bytes) -> bool:
        """Whether the line by itself matches."""
        ...


def matcher_of(pattern: Pattern) -> Matcher:
    """What finds the pattern; may take a second. Raises InvalidInputError where it is none."""
    if not pattern.text:
        raise _invalid("the pattern is empty; give a piece of text, or a regular expression with regex=true")
    if len(pattern.text) > PATTERN_MAX_CHARS:
        raise _invalid(f"the pattern has {len(pattern.text)} characters, at most {PATTERN_MAX_CHARS} are taken")
    if "\n" in pattern.text or "\r" in pattern.text:
        raise _invalid("a pattern is looked for line by line; it cannot hold a line break")
    if pattern.regex:
        return RegexMatcher(pattern.text, ignore_case=pattern.ignore_case)
    return LiteralMatcher(pattern.text.encode("utf-8", "surrogateescape"), ignore_case=pattern.ignore_case)


class LiteralMatcher:
    """A literal; where case is ignored it is that of the letters a to z."""

    def __init__(self, literal: bytes, *, ignore_case: bool = False) -> None:
        self.literal = literal
        self._ignore_case = ignore_case
        self._wanted = literal.lower() if ignore_case else literal
        self._text = self._lower = b""

    def first(self, text: bytes, start: int) -> int | None:
        found = self._cased(text).find(self._wanted, start)
        return found if found >= 0 else None

    def confirms(self, line: bytes) -> bool:
        return self._wanted in self._cased(line)

    def _cased(self, text: bytes) -> bytes:
        if not self._ignore_case:
            return text
        if text is not self._text:
            self._text, self._lower = text, text.lower()
        return self._lower


class RegexMatcher:
    """A regular expression; not to be used by two threads at a time."""

    literal = b""

    def __init__(self, expression: str, *, ignore_case: bool = False) -> None:
        if any(anchor in expression.replace("\\\\", "") for anchor in _WHOLE_TEXT_ANCHORS):
            raise _invalid(r"\A, \z and \Z mean a whole text; write ^ and $ for the beginning and the end of a line")
        flags = hyperscan.HS_FLAG_MULTILINE | (hyperscan.HS_FLAG_CASELESS if ignore_case else 0)
        self._database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        try:
            encoded = expression.encode("utf-8", "surrogateescape")
            self._database.compile(expressions=[encoded], ids=[1], elements=1, flags=[flags])
        except hyperscan.error as error:
            reason = str(error).rstrip(".")
            raise _invalid(f"{expression!r} is no regular expression that can be looked for: {reason}") from None

    def first(self, text: bytes, start: int) -> int | None:
        stop = self._first_end(text[start:] if start else text)
        return None if stop is None else start + max(0, stop - 1)

    def confirms(self, line: bytes) -> bool:
        return self._first_end(line) is not None

    def _first_end(self, text: bytes) -> int | None:
        ends: list[int] = []

        def on_match(_id: int, _start: int, stop: int, _flags: int, _context: object) -> bool:
            ends.append(stop)
            return True  # enough

        try:
            self._database.scan(text, match_event_handler=on_match)
        except hyperscan.ScanTerminated:
            return ends[0]
        return ends[0] if ends else None


def matching_lines(matcher: Matcher, text: bytes) -> Iterator[tuple[int, int]]:
    r"""Begin and end of each line of the text that matches; the text begins at the beginning of a line."""
    lines = text.replace(b"\r", b"\n") if b"\r" in text else text
    if b"\x1b" not in text and b"\xc2" not in text:
        yield from _matching(matcher, lines)
        return
    shown, number, start = without_sequences(lines), 0, 0
    counted = 0
    for first, _ in _matching(matcher, shown):
        skipped = shown.count(b"\n", counted, first)
        counted = first
        for _ in range(skipped):
            start = lines.index(b"\n", start) + 1
        number += skipped
        yield start, _end_of_line(lines, start)


def _matching(matcher: Matcher, text: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(text) and (found := matcher.first(text, at)) is not None:
        start = text.rfind(b"\n", at, found) + 1 or at
        stop = _end_of_line(text, found)
        if matcher.confirms(text[start:stop]):
            yield start, stop
        at = stop + 1


def _end_of_line(text: bytes, at: int) -> int:
    stop = text.find(b"\n", at)
    return len(text) if stop < 0 else stop


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError((Violation("/query/pattern", "bad-pattern", message),))
