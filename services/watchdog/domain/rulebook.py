"""Rules made ready to be looked for in whole chunks of a log, in one pass of Hyperscan.

The pass looks for the *texts* of all rules at once, and stops looking for each at its first place in the chunk, so that
text which is everywhere costs no more than text which is nowhere. Where all texts of a set are in the chunk, its lines
are looked at one by one for the rest: that they stand together, regexes, and what may not stand there.

Lines that are looked at in vain are counted by rule. A rule that has used up `LOOKS_MAX` of them in a log is given up
for that log: its texts are everywhere there, but never together, and nobody else shall wait for it.

Making a rulebook takes milliseconds, searching microseconds: it is made once a set of rules, and not between chunks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import hyperscan

from services.watchdog.domain.lines import LineTest, needle
from services.watchdog.domain.phases import PHASE_MARKER
from services.watchdog.domain.rules import LineRule
from services.watchdog.domain.text import LAST_ERROR, line_around

LOOKS_MAX: Final = 3000
_JOINT: Final = 0
_PHASE: Final = 1

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rule holds in a piece of text: its first line and its last one."""

    rule: str
    first: Span
    last: Span


@dataclass(slots=True)
class Found:
    """What a search gives: places in the order of their first lines, and lines that were looked at in vain, by rule.

    `has_joints`: there may be lines that are to be joined, and the text is to be searched again after that;
    `has_phases`: there may be markers of phases.
    """

    places: list[Place] = field(default_factory=list)
    looks: dict[str, int] = field(default_factory=dict)
    has_joints: bool = False
    has_phases: bool = False


@dataclass(frozen=True, slots=True)
class _Set:
    """One set of a rule: which texts must be in the chunk before a line is looked at."""

    number: int
    rule: int
    patterns: tuple[int, ...]
    needles: tuple[bytes, ...]


@dataclass(slots=True)
class _Search:
    """A search under way."""

    text: bytes
    ends: dict[int, int]
    looks: defaultdict[str, int]
    folded: bytes | None = None

    def haystack(self, *, ignore_case: bool) -> bytes:
        if not ignore_case:
            return self.text
        if self.folded is None:
            self.folded = self.text.lower()
        return self.folded


class Rulebook:
    """Rules in the order in which they win; raises BadRegexError where one has a regex that cannot be used."""

    def __init__(self, rules: Sequence[LineRule]) -> None:
        self.rules = tuple(rules)
        self.order: Mapping[str, int] = {rule.id: number for number, rule in enumerate(self.rules)}
        self._tests = tuple(map(LineTest.of, self.rules))
        numbers: dict[tuple[bytes, bool], int] = {(LAST_ERROR.encode(), False): _JOINT, (PHASE_MARKER, False): _PHASE}
        self._sets = tuple(self._numbered(numbers))
        self._sets_of: dict[int, list[_Set]] = defaultdict(list)
        for each in self._sets:
            for pattern in set(each.patterns):
                self._sets_of[pattern].append(each)
        self._database = _database(list(numbers))

    def search(self, text: bytes, looks: Mapping[str, int]) -> Found:
        """Where each rule holds in cleaned, complete lines; `looks` are those in vain earlier in the same log."""
        ends: dict[int, int] = {}
        if text:
            self._database.scan(
                text, match_event_handler=lambda pattern, _start, end, *_: ends.__setitem__(pattern, end)
            )
        if not ends:
            return Found()
        search = _Search(text, ends, defaultdict(int, looks))
        places = sorted(self._places(search), key=lambda place: (place.first, self.order[place.rule]))
        return Found(
            places, {rule: count for rule, count in search.looks.items() if count}, _JOINT in ends, _PHASE in ends
        )

    def _numbered(self, numbers: dict[tuple[bytes, bool], int]) -> Iterator[_Set]:
        for index, rule in enumerate(self.rules):
            for number, fragments in enumerate(rule.any_of):
                needles = tuple(needle(each, ignore_case=rule.ignore_case) for each in fragments if not each.is_regex)
                patterns = tuple(numbers.setdefault((each, rule.ignore_case), len(numbers)) for each in needles)
                yield _Set(number, index, patterns, needles)

    def _places(self, search: _Search) -> Iterator[Place]:
        candidates = {
            (each.rule, each.number): each
            for pattern in search.ends
            for each in self._sets_of[pattern]
            if all(needed in search.ends for needed in each.patterns)
            and search.looks.get(self.rules[each.rule].id, 0) < LOOKS_MAX
        }
        spans: dict[int, list[Span]] = defaultdict(list)
        for each in candidates.values():
            spans[each.rule] += self._spans(search, each)
        for rule, found in spans.items():
            if found:
                yield Place(self.rules[rule].id, min(found), max(found))

    def _spans(self, search: _Search, each: _Set) -> list[Span]:
        """The first and the last line on which the set holds."""
        rule = self.rules[each.rule]
        haystack = search.haystack(ignore_case=rule.ignore_case)
        # The text that comes last in the chunk: no line before it can have them all.
        driver = max(range(len(each.patterns)), key=lambda index: search.ends[each.patterns[index]])
        text, begin = each.needles[driver], search.ends[each.patterns[driver]] - len(each.needles[driver])
        first = self._forwards(search, each, haystack, text, begin)
        if first is None:
            return []
        last = self._backwards(search, each, haystack, text, first)
        return [first, last]

    def _forwards(self, search: _Search, each: _Set, haystack: bytes, text: bytes, begin: int) -> Span | None:
        at = haystack.find(text, max(begin, 0))
        while at >= 0:
            start, stop = line_around(search.text, at)
            if self._holds(search, each, start, stop):
                return start, stop
            if search.looks[self.rules[each.rule].id] >= LOOKS_MAX:
                return None
            at = haystack.find(text, max(stop, at + 1))
        return None

    def _backwards(self, search: _Search, each: _Set, haystack: bytes, text: bytes, first: Span) -> Span:
        at = haystack.rfind(text, first[1])
        while at >= 0:
            start, stop = line_around(search.text, at)
            if self._holds(search, each, start, stop):
                return start, stop
            if search.looks[self.rules[each.rule].id] >= LOOKS_MAX:
                break
            at = haystack.rfind(text, first[1], start)
        return first

    def _holds(self, search: _Search, each: _Set, start: int, stop: int) -> bool:
        holds = self._tests[each.rule].set_holds(each.number, search.text[start:stop])
        if not holds:
            search.looks[self.rules[each.rule].id] += 1
        return holds


def _database(needles: Sequence[tuple[bytes, bool]]) -> hyperscan.Database:
    r"""A database of texts; every byte is written as `\xHH`, so that none has a meaning of its own."""
    database = hyperscan.Database()
    once, folded = hyperscan.HS_FLAG_SINGLEMATCH, hyperscan.HS_FLAG_CASELESS
    database.compile(
        expressions=["".join(f"\\x{byte:02x}" for byte in text).encode() for text, _ in needles],
        ids=list(range(len(needles))),
        elements=len(needles),
        flags=[once | (folded if ignore_case else 0) for _, ignore_case in needles],
    )
    return database
