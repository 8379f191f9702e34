"""Rules of admins: tried before they count, and refused with the reason where they could never be heard."""

from __future__ import annotations

from typing import Any

import pytest

from services.watchdog.catalogue import built_in_rules
from services.watchdog.domain.admin_rules import AdminRule, rule_of, violations_in
from shared.documents import must_parse
from shared.errors import InvalidInputError

BUILT_IN = built_in_rules()


def rule(name: str = "our-disk", text: str = "scratch volume gone", **spec: Any) -> AdminRule:
    made: AdminRule = must_parse(
        AdminRule,
        {
            "apiVersion": "trainmaster/v1",
            "kind": "Rule",
            "metadata": {"name": name},
            "spec": {
                "class": "infrastructure",
                "anyOf": [[text]],
                "advice": "Ask the storage team.",
                "matches": [f"E {text} on node 7"],
                **spec,
            },
        },
    )
    return made


def wrong(made: AdminRule, before: AdminRule | None = None, *others: AdminRule) -> list[tuple[str, str]]:
    return [(each.pointer, each.code) for each in violations_in(made, before, others, BUILT_IN)]


def test_a_rule_is_tried_first_and_made_active_with_the_text_that_was_tried() -> None:
    tried = rule()
    assert tried.spec.mode == "shadow"
    assert wrong(tried) == []
    assert wrong(rule(mode="active")) == [("/spec/mode", "shadow-first")]
    assert wrong(rule(mode="active", advice="Call them."), tried) == []
    assert wrong(rule(text="scratch volume lost", mode="active"), tried) == [("/spec/mode", "shadow-first")]


def test_it_is_called_by_the_name_of_its_document() -> None:
    assert rule_of(rule("our-disk")).id == "our-disk"
    with pytest.raises(InvalidInputError) as refused:
        rule_of(rule("Our_Disk"))
    assert refused.value.violations[0].pointer == "/metadata/name"


def test_a_name_of_the_catalogue_is_taken() -> None:
    assert ("/metadata/name", "rule-built-in") in wrong(rule(BUILT_IN[0].id))


def test_a_rule_that_an_earlier_one_hides_is_refused_and_so_is_one_that_hides_a_later_one() -> None:
    wide, narrow = rule("b-wide", "scratch volume"), rule("c-narrow", "scratch volume gone")
    assert wrong(narrow, None, wide) == [("/spec/anyOf", "rule-shadowed")]
    assert wrong(rule("a-wide", "scratch volume"), None, narrow) == [("/spec/anyOf", "rule-shadows-another")]


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"anyOf": [["ab"]], "matches": ["ab"]}, "/spec/anyOf/0"),
        ({"matches": ["something else"]}, "/spec/matches/0"),
        ({"anyOf": [["scratch volume gone", {"regex": "(a+"}]]}, "/spec/anyOf/0/1/regex"),
    ],
)
def test_what_cannot_work_is_refused_at_its_place(spec: dict[str, Any], pointer: str) -> None:
    assert [place for place, _ in wrong(rule(**spec))] == [pointer]


def test_a_regex_that_cannot_be_used_is_refused_also_where_other_rules_stand_behind() -> None:
    broken = rule("a-broken", anyOf=[["scratch volume gone", {"regex": "(a+"}]])
    assert wrong(broken, None, rule("b-other", "tape robot gone")) == [("/spec/anyOf/0/1/regex", "regex-refused")]


@pytest.mark.parametrize(
    ("spec", "violation"),
    [
        ({"anyOf": [[""]]}, ("/spec/anyOf/0/0", "fragment-length")),
        ({"anyOf": [["scratch volume gone", {"regex": 5}]]}, ("/spec/anyOf/0/1/regex", "wrong-type")),
        ({"anyOf": [["scratch volume gone", {"regexp": "a"}]]}, ("/spec/anyOf/0/1/regex", "required")),
        ({"anyOf": [[3]]}, ("/spec/anyOf/0/0", "wrong-type")),
        ({"anyOf": [[]]}, ("/spec/anyOf/0", "out-of-range")),
        ({"noneOf": [["a"]]}, ("/spec/noneOf/0", "wrong-type")),
        ({"class": "bogus"}, ("/spec/class", "not-a-choice")),
    ],
)
def test_a_mistake_in_a_fragment_is_told_once_at_its_place(spec: dict[str, Any], violation: tuple[str, str]) -> None:
    with pytest.raises(InvalidInputError) as refused:
        rule(**spec)
    assert next((each.pointer, each.code) for each in refused.value.violations) == violation
    assert all("[" not in each.pointer for each in refused.value.violations)
    assert {each.pointer for each in refused.value.violations} <= {violation[0], "/spec/anyOf/0/1/regexp"}
