"""`kind: Rule`: rules that admins add to the catalogue, tried in mode `shadow` first and made `active` then.

A rule in mode shadow is searched for like any other, and what it finds is put down with what it would have meant; it
decides nothing, nobody but admins sees it, and no other rule is told less because of it. Only a rule whose text was
tried like that may be made active. Active rules of admins stand before the built-in ones: where both hold on a line the
admin's is told. Among themselves they are ordered by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from pydantic import Field

from services.watchdog.domain.rule_checks import shadowed_by, violations_of
from services.watchdog.domain.rules import FailureClass, Rule, RuleSpec
from shared.catalog import CatalogDocument
from shared.documents.fields import shown
from shared.documents.parsing import must_parse
from shared.errors import InvalidInputError, Violation

RULES_MAX: Final = 200
Mode = Literal["shadow", "active"]

WOULD: Final[Mapping[FailureClass, str]] = {
    FailureClass.INFRASTRUCTURE: "another attempt",
    FailureClass.NODE: "another attempt on other nodes",
    FailureClass.USER: "no other attempt",
    FailureClass.AMBIGUOUS: "one more try",
    FailureClass.CASCADE: "nothing by itself",
    FailureClass.INFO: "a note",
}


class AdminRuleSpec(RuleSpec):
    """A rule as an admin writes it."""

    mode: Mode = Field("shadow", description="'shadow', and 'active' once it was tried")


class AdminRule(CatalogDocument):
    """A rule that an admin adds to the catalogue."""

    SINGULAR = "rule"
    PREFIX = "ru"

    kind: Literal["Rule"] = Field(description="'Rule'")
    spec: AdminRuleSpec = Field(description="an object with class, anyOf, advice, matches and mode")


def rule_of(document: AdminRule) -> Rule:
    """The rule as the catalogue has it, called by the document's name; raises InvalidInputError."""
    spec = document.spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"mode"})
    try:
        return must_parse(Rule, {**spec, "id": document.name})
    except InvalidInputError as error:
        raise InvalidInputError(tuple(map(_placed, error.violations))) from error


def violations_in(
    document: AdminRule, before: AdminRule | None, others: Iterable[AdminRule], built_in: Sequence[Rule]
) -> Iterator[Violation]:
    """Everything that is wrong with a rule that is to be kept; `others` are the admins' other rules."""
    rule, neighbours = rule_of(document), sorted(others, key=lambda each: each.name)
    if any(rule.id == known.id for known in built_in):
        sentence = f"the catalogue has a rule {shown(rule.id)}, which cannot be replaced; choose another name"
        yield Violation("/metadata/name", "rule-built-in", sentence)
    if before is None and len(neighbours) >= RULES_MAX:
        sentence = f"there are {RULES_MAX} rules, the most that are taken; delete one that is not needed"
        yield Violation("/metadata/name", "too-many", sentence)
    yield from _must_be_tried(document, before)
    earlier = [rule_of(each) for each in neighbours if each.name < document.name]
    wrong = violations_of(rule, (*earlier, *built_in), ("spec",))
    yield from wrong or _hiding(rule, [each for each in neighbours if each.name > document.name])


def _hiding(rule: Rule, later: Sequence[AdminRule]) -> Iterator[Violation]:
    """Whether the rule, which works by itself, takes everything from one that stands behind it."""
    hidden = next((each for each in later if _hides(rule, each)), None)
    if hidden is not None:
        sentence = (
            f"this takes every line that rule {hidden.name} looks for, which would never be heard again; look for "
            "more, or delete that rule first"
        )
        yield Violation("/spec/anyOf", "rule-shadows-another", sentence)


def _must_be_tried(document: AdminRule, before: AdminRule | None) -> Iterator[Violation]:
    if document.spec.mode != "active":
        return
    if before is None:
        sentence = "a new rule is tried first: give mode: shadow, look at what it finds, then apply it as active"
        yield Violation("/spec/mode", "shadow-first", sentence)
    elif rule_of(before).line_rule != rule_of(document).line_rule:
        sentence = "what the rule looks for is new: apply it with mode: shadow first, then as active"
        yield Violation("/spec/mode", "shadow-first", sentence)


def _hides(rule: Rule, other: AdminRule) -> bool:
    return shadowed_by(rule_of(other), (rule,)) is not None


def _placed(violation: Violation) -> Violation:
    """The violation of a rule at its place in the document."""
    pointer = "/metadata/name" if violation.pointer == "/id" else f"/spec{violation.pointer}"
    return Violation(pointer, violation.code, violation.message)
