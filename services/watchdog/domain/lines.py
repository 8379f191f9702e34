"""Whether a rule holds on one line, with its fragments made ready once.

Text is found with `in`; upper and lower case are folded for ASCII letters only, as bytes have no other. Regexes run in
Hyperscan, which is linear in the length of the line whatever the expression; its compiler refuses what could not be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import hyperscan

from services.watchdog.domain.rules import Fragment, LineRule

REPEATS_MAX: Final = 1000
_REPEAT: Final = re.compile(r"\{(\d*)(?:,(\d*))?\}")

Test = Callable[[bytes], bool]


class BadRegexError(ValueError):
    """A regex that is refused; the message says why."""


@dataclass(frozen=True, slots=True)
class FragmentTest:
    """A fragment made ready: the text that it needs on a line, folded where case is ignored, or a regex."""

    text: bytes
    regex: RegexTest | None = None

    def holds(self, line: bytes, folded: bytes, *, ignore_case: bool) -> bool:
        """Whether the fragment stands on the line."""
        if self.regex is not None:
            return self.regex.holds(line)
        return self.text in (folded if ignore_case else line)


class RegexTest:
    """One compiled regex; raises BadRegexError where it is none that runs in linear time."""

    def __init__(self, expression: str, *, ignore_case: bool) -> None:
        repeats = _repeats(expression)
        if repeats > REPEATS_MAX:
            raise BadRegexError(f"its counted repeats multiply to {repeats}; the limit is {REPEATS_MAX}")
        flags = hyperscan.HS_FLAG_SINGLEMATCH | (hyperscan.HS_FLAG_CASELESS if ignore_case else 0)
        self._database = hyperscan.Database()
        try:
            self._database.compile(expressions=[expression.encode()], ids=[0], elements=1, flags=[flags])
        except hyperscan.error as error:
            raise BadRegexError(str(error).strip().rstrip(".")) from error

    def holds(self, line: bytes) -> bool:
        """Whether the regex is found on the line."""
        found: list[int] = []
        self._database.scan(line, match_event_handler=lambda *match: found.append(match[2]))
        return bool(found)


@dataclass(frozen=True, slots=True)
class LineTest:
    """A rule made ready."""

    rule: LineRule
    sets: tuple[tuple[FragmentTest, ...], ...]
    none_of: tuple[FragmentTest, ...]

    @classmethod
    def of(cls, rule: LineRule) -> LineTest:
        """Make ready; raises BadRegexError."""
        sets = tuple(_tests(each, ignore_case=rule.ignore_case) for each in rule.any_of)
        return cls(rule, sets, _tests(rule.none_of, ignore_case=rule.ignore_case))

    def holds(self, line: bytes) -> bool:
        """Whether the rule holds on the line."""
        return any(self.set_holds(number, line) for number in range(len(self.sets)))

    def set_holds(self, number: int, line: bytes) -> bool:
        """Whether this set of the rule holds on the line, and nothing that may not stand there does."""
        ignore_case = self.rule.ignore_case
        folded = line.lower() if ignore_case else line
        return all(test.holds(line, folded, ignore_case=ignore_case) for test in self.sets[number]) and not any(
            test.holds(line, folded, ignore_case=ignore_case) for test in self.none_of
        )


def needle(fragment: Fragment, *, ignore_case: bool) -> bytes:
    """The bytes to find; folded where case is ignored."""
    text = fragment.text.encode()
    return text.lower() if ignore_case else text


def _tests(fragments: Sequence[Fragment], *, ignore_case: bool) -> tuple[FragmentTest, ...]:
    """Text before regexes: it is the cheaper one."""
    ordered = sorted(fragments, key=lambda fragment: fragment.is_regex)
    return tuple(
        FragmentTest(b"", RegexTest(each.text, ignore_case=ignore_case))
        if each.is_regex
        else FragmentTest(needle(each, ignore_case=ignore_case))
        for each in ordered
    )


def _repeats(expression: str) -> int:
    """The bounds of all counted repeats multiplied: nested ones multiply, and that is what makes compiling slow."""
    product = 1
    for low, high in _REPEAT.findall(expression):
        product *= max(1, int(high or low or 1))
    return product
