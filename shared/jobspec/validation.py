"""Validation of a whole job document: every violation at once, or the job.

Four steps: guard (an object, not too large), settle (write shorthands out), parse (each value by itself), rules (what
holds between places, judged on whatever is right by itself so that one error does not hide another).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from shared.documents.parsing import VIOLATIONS_MAX, json_kind, parse
from shared.errors import InvalidInputError, Violation
from shared.jobspec.draft import Draft
from shared.jobspec.models import JobSpec
from shared.jobspec.parts import JobParts
from shared.jobspec.rules import RULES
from shared.jobspec.rules.variables import variables_are_few
from shared.jobspec.settling import settle
from shared.units import KIB

SPEC_MAX_BYTES: Final = 256 * KIB


@dataclass(frozen=True, slots=True)
class JudgedJob:
    """What a document comes to by itself: the job, or all that is wrong; and what can be looked up either way."""

    job: JobSpec | None
    violations: tuple[Violation, ...]
    parts: JobParts


def validate_job(document: object) -> JobSpec:
    """The job that a JSON document describes; raises InvalidInputError with every violation and its pointer."""
    judged = judge_job(document)
    if judged.job is None:
        raise InvalidInputError(judged.violations)
    return judged.job


def judge_job(document: object) -> JudgedJob:
    """What a JSON document comes to; raises InvalidInputError where nothing in it can be looked at."""
    if not isinstance(document, dict):
        raise InvalidInputError(
            (Violation("", "wrong-type", f"this is {json_kind(document)}; give a job as an object"),)
        )
    _guard_size(document)
    settled, shorthand = settle(document)
    job, structure = parse(JobSpec, settled)
    draft = Draft(settled)
    found = (*variables_are_few(Draft(document)), *shorthand, *structure, *_rule_violations(draft))
    violations = tuple(dict.fromkeys(found))[:VIOLATIONS_MAX]
    return JudgedJob(None if violations else job, violations, JobParts.of(draft))


def _rule_violations(draft: Draft) -> Iterator[Violation]:
    for rule in RULES:
        yield from rule(draft)


def _guard_size(document: dict[str, object]) -> None:
    """Refuse what would not fit into an event; nothing else is looked at then."""
    try:
        size_bytes = len(
            json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
        )
    except RecursionError:
        sentence = "this is nested deeper than any job needs; the deepest key of a job is seven levels down"
        raise InvalidInputError((Violation("", "too-deep", sentence),)) from None
    if size_bytes > SPEC_MAX_BYTES:
        limit = f"at most {SPEC_MAX_BYTES} are taken: upload code instead of inlining it"
        sentence = f"the job has {size_bytes} bytes as JSON; {limit}"
        raise InvalidInputError((Violation("", "spec-too-large", sentence),))
