"""What a rule of the failure catalogue is: text that stands on one line of a log, what it means, and what to do then.

A rule holds on a line where all fragments of one of its sets (`anyOf`) stand on it and none of `noneOf` does. A
fragment is a piece of text, or `{regex: …}` in Hyperscan's language, which knows no backtracking. Each set has a piece
of text of at least `LITERAL_MIN_BYTES`: whole logs are searched for those alone, so a regex costs something only on
lines that have the text already. The rule's own samples show where it holds and where it does not; they are tests.

A rule is `secondHand` where its line may tell of another replica, as a connection that broke does: it gives way to
errors of other replicas that come with it.

`Rule` is what is written, in the catalogue's files and by admins; `LineRule` is the part of it that is searched for,
and all that a user's message has. `rule_checks` says what is wrong with a rule, `lines` whether one holds on a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Discriminator, Field, StrictBool, Tag

from shared.documents.fields import Document, refuse, shown
from shared.documents.parsing import OBJECT_TAG, TEXT_TAG

SETS_MAX: Final = 20
FRAGMENTS_MAX: Final = 10
FRAGMENT_MAX_BYTES: Final = 500
REGEX_MAX_CHARS: Final = 200
LITERAL_MIN_BYTES: Final = 3
SAMPLES_MAX: Final = 20
SAMPLE_MAX_BYTES: Final = 4096
ADVICE_MAX_CHARS: Final = 500

_ID: Final = re.compile(r"(?:preset/)?[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_VERSION: Final = re.compile(r"(?P<library>[a-z][a-z0-9-]{0,30}) (?P<number>\d{1,5}(?:\.\d{1,5}){0,3})", re.ASCII)
_CUTS_A_LINE: Final = {"\n": "a line feed", "\r": "a carriage return", "\x1b": "an escape character"}


class FailureClass(StrEnum):
    """What a failure asks for."""

    INFRASTRUCTURE = "infrastructure"
    """Passes by itself: another attempt."""
    NODE = "node"
    """The machine is suspect: another attempt elsewhere."""
    USER = "user"
    """Comes again until the job is changed: no other attempt."""
    AMBIGUOUS = "ambiguous"
    """One more try."""
    CASCADE = "cascade"
    """What a survivor says of a peer that died, or what follows another error: never decides alone."""
    INFO = "info"
    """Worth a note and nothing more."""


class Severity(StrEnum):
    """How loud an incident is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


def _check_id(rule_id: str) -> str:
    if _ID.fullmatch(rule_id) is None:
        raise refuse("rule-id", f"{shown(rule_id)} is no id of a rule; use at most 63 of a-z, 0-9 and -")
    return rule_id


def _check_version(version: str) -> str:
    if _VERSION.fullmatch(version) is None:
        raise refuse("version", f"{shown(version)} is no version; write library and number, such as 'nccl 2.24'")
    return version


def _check_text(text: str) -> str:
    cut = next((char for char in _CUTS_A_LINE if char in text), None)
    if cut is not None:
        raise refuse(
            "fragment-never-matches",
            f"{shown(text)} has {_CUTS_A_LINE[cut]}, which no line has once it is cut and cleaned; give a piece of "
            "one line as `trainmaster logs` shows it",
        )
    if not 1 <= len(text.encode()) <= FRAGMENT_MAX_BYTES:
        raise refuse(
            "fragment-length", f"a fragment has 1 to {FRAGMENT_MAX_BYTES} bytes; this has {len(text.encode())}"
        )
    return text


def _check_regex(text: str) -> str:
    if not 1 <= len(text) <= REGEX_MAX_CHARS:
        raise refuse("regex-length", f"a regex has 1 to {REGEX_MAX_CHARS} characters; this one has {len(text)}")
    return text


def _check_sample(sample: str) -> str:
    if any(char in sample for char in "\n\r"):
        raise refuse("sample-not-a-line", f"{shown(sample)} is more than one line; a sample is one line of a log")
    if len(sample.encode()) > SAMPLE_MAX_BYTES:
        raise refuse("sample-too-long", f"a sample has at most {SAMPLE_MAX_BYTES} bytes; cut it")
    return sample


Version = Annotated[str, AfterValidator(_check_version)]
Sample = Annotated[str, AfterValidator(_check_sample)]
Samples = Annotated[tuple[Sample, ...], Field(max_length=SAMPLES_MAX)]


class Regex(Document):
    """A regular expression in Hyperscan's language, for one line."""

    regex: Annotated[str, AfterValidator(_check_regex)] = Field(description="a regular expression for one line")


def _kind_of_fragment(written: object) -> str | None:
    """Which of the two it is meant to be, so that what is wrong is told of that one alone."""
    if isinstance(written, str):
        return TEXT_TAG
    return OBJECT_TAG if isinstance(written, dict | Regex) else None


Text = Annotated[str, AfterValidator(_check_text)]
WrittenFragment = Annotated[
    Annotated[Text, Tag(TEXT_TAG)] | Annotated[Regex, Tag(OBJECT_TAG)], Discriminator(_kind_of_fragment)
]
FragmentSet = Annotated[tuple[WrittenFragment, ...], Field(min_length=1, max_length=FRAGMENTS_MAX)]

_FRAGMENTS: Final = f"a list of 1 to {FRAGMENTS_MAX} fragments that stand on one line: text, or {{regex: …}}"
_SAMPLES: Final = f"a list of at most {SAMPLES_MAX} lines"


class RuleSpec(Document):
    """What a rule looks for and what it says."""

    failure_class: FailureClass = Field(alias="class", description="one of " + ", ".join(FailureClass))
    severity: Severity = Field(Severity.ERROR, description="one of " + ", ".join(Severity))
    any_of: Annotated[tuple[FragmentSet, ...], Field(min_length=1, max_length=SETS_MAX)] = Field(
        description=f"a list of 1 to {SETS_MAX} sets, each {_FRAGMENTS}"
    )
    none_of: Annotated[tuple[WrittenFragment, ...], Field(max_length=FRAGMENTS_MAX)] = Field(
        (), description=f"a list of at most {FRAGMENTS_MAX} fragments that may not stand on the line"
    )
    ignore_case: StrictBool = Field(default=True, description="true or false")
    second_hand: StrictBool = Field(default=False, description="true where the line tells of another replica")
    since: Version | None = Field(
        None, description="the first version that prints this, such as 'nccl 2.24': told to readers, never judged by"
    )
    until: Version | None = Field(
        None, description="the last version that prints this, such as 'nccl 2.22': told to readers, never judged by"
    )
    advice: Annotated[str, Field(min_length=1, max_length=ADVICE_MAX_CHARS)] = Field(
        description=f"a sentence of at most {ADVICE_MAX_CHARS} characters: what happened and what to do"
    )
    matches: Samples = Field(description=f"{_SAMPLES} on which the rule holds")
    non_matches: Samples = Field((), description=f"{_SAMPLES} on which the rule does not hold")


class Rule(RuleSpec):
    """A rule with its id; those that stand first in a list win where several hold on a line."""

    id: Annotated[str, AfterValidator(_check_id)] = Field(description="an id of a-z, 0-9 and -")

    @property
    def line_rule(self) -> LineRule:
        """The part that is searched for."""
        sets = tuple(tuple(map(_fragment, each)) for each in self.any_of)
        return LineRule(self.id, sets, tuple(map(_fragment, self.none_of)), self.ignore_case)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of text, or a regex."""

    text: str
    is_regex: bool = False


@dataclass(frozen=True, slots=True)
class LineRule:
    """Sets of fragments one of which must stand on a line whole, and fragments that may not stand there."""

    id: str
    any_of: tuple[tuple[Fragment, ...], ...]
    none_of: tuple[Fragment, ...] = ()
    ignore_case: bool = False

    @classmethod
    def of_texts(cls, rule_id: str, *texts: str) -> LineRule:
        """A rule that looks for these texts on one line, as written."""
        return cls(rule_id, (tuple(map(Fragment, texts)),))


def version_parts(version: str) -> tuple[str, tuple[int, ...]]:
    """Library and number: `nccl 2.24` is `("nccl", (2, 24))`."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is no version such as 'nccl 2.24'")
    return match["library"], tuple(map(int, match["number"].split(".")))


def _fragment(written: str | Regex) -> Fragment:
    return Fragment(written.regex, is_regex=True) if isinstance(written, Regex) else Fragment(written)
