"""Rules about retries: a policy has what it looks at and nothing else, and whatever is asked for can happen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shared.documents.fields import shown
from shared.documents.parsing import pointer
from shared.errors import Violation
from shared.jobspec.draft import ABSENT, Draft
from shared.jobspec.models import FRAGMENTS_MAX, MESSAGES_MAX

_ON: Final = ("spec", "retry", "on")
_FAILURE: Final = (*_ON, "failure")
_CODES: Final = (*_FAILURE, "exitCodes")
_MESSAGES: Final = (*_FAILURE, "errorMessages")
_CONDITIONS: Final = ("exitCodes", "errorMessages")
_TRIGGERS: Final = {"failure", "diagnosisFailure", "hang"}
_CUTS_A_LINE: Final = {"\n": "a line feed", "\r": "a carriage return", "\x1b": "an escape character"}


def failure_policy_has_its_conditions(draft: Draft) -> Iterator[Violation]:
    """ExitCodeAndErrorMsg is given something to look at; OnFailure, which looks at nothing, is not."""
    policy = draft.raw(*_FAILURE, "policy")
    given = [name for name in _CONDITIONS if draft.raw(*_FAILURE, name) not in (ABSENT, None, [])]
    if policy == "ExitCodeAndErrorMsg" and not given:
        yield Violation(
            pointer(_FAILURE),
            "condition-missing",
            "ExitCodeAndErrorMsg looks at exit codes and messages, and neither is given; give exitCodes, "
            "errorMessages or both, or use OnFailure",
        )
    if policy in (ABSENT, "OnFailure"):
        for name in given:
            yield Violation(
                pointer((*_FAILURE, name)),
                "condition-not-used",
                f"OnFailure retries every failure and looks at no {name}; leave them out, or give policy: "
                "ExitCodeAndErrorMsg or Advanced",
            )


def something_triggers_a_retry(draft: Draft) -> Iterator[Violation]:
    """Where `on` is written it names at least one end that is retried."""
    on = draft.raw(*_ON)
    if isinstance(on, dict) and all(on.get(name) in (None, False) for name in _TRIGGERS) and not set(on) - _TRIGGERS:
        yield Violation(
            pointer(_ON),
            "condition-missing",
            "nothing is retried like this; give failure: {policy: OnFailure}, hang: true or diagnosisFailure: true, "
            "or leave `on` out, which retries every failure",
        )


def exit_codes_stand_once(draft: Draft) -> Iterator[Violation]:
    """An exit code is listed or not."""
    seen: set[int] = set()
    for index in range(draft.length(*_CODES)):
        code = draft.raw(*_CODES, index)
        if isinstance(code, int) and code in seen:
            yield Violation(pointer((*_CODES, index)), "duplicate", f"{code} stands here twice; once is enough")
        elif isinstance(code, int):
            seen.add(code)


def messages_can_match(draft: Draft) -> Iterator[Violation]:
    """Messages are few, each has fragments, and a fragment is text that can stand on one line of a log."""
    count = draft.length(*_MESSAGES)
    if count > MESSAGES_MAX:
        yield Violation(pointer(_MESSAGES), "too-many", f"there are {count} messages; give at most {MESSAGES_MAX}")
    for index in range(count):
        yield from _fragments(draft, (*_MESSAGES, index))


def _fragments(draft: Draft, place: tuple[str | int, ...]) -> Iterator[Violation]:
    count = draft.length(*place)
    if isinstance(draft.raw(*place), list) and not 1 <= count <= FRAGMENTS_MAX:
        code = "too-few" if count == 0 else "too-many"
        yield Violation(pointer(place), code, f"a message has 1 to {FRAGMENTS_MAX} fragments; this one has {count}")
    for index in range(count):
        fragment = draft.raw(*place, index)
        cut = next((char for char in _CUTS_A_LINE if isinstance(fragment, str) and char in fragment), None)
        if isinstance(fragment, str) and cut is not None:
            yield Violation(
                pointer((*place, index)),
                "fragment-never-matches",
                f"{shown(fragment)} has {_CUTS_A_LINE[cut]}, which no line has once it is cut and cleaned; "
                "give pieces of one line as it is shown by `trainmaster logs`",
            )
