"""What a rule may look like, when it holds on a line, and what is refused with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from services.watchdog.domain.lines import LineTest, RegexTest
from services.watchdog.domain.rule_checks import implies, shadowed_by, violations_of
from services.watchdog.domain.rules import FailureClass, LineRule, Rule, Severity
from shared.documents.parsing import parse

SAMPLE = "it went boom on disk 7"


def written(**changes: Any) -> dict[str, Any]:
    row = {"id": "boom", "class": "user", "anyOf": [["boom"]], "advice": "Do not.", "matches": [SAMPLE]}
    return {key: value for key, value in {**row, **changes}.items() if value is not None}


def rule(**changes: Any) -> Rule:
    parsed, violations = parse(Rule, written(**changes))
    assert parsed is not None, violations
    return parsed


def problems(of: Rule, *earlier: Rule) -> list[tuple[str, str]]:
    return [(each.pointer, each.code) for each in violations_of(of, earlier)]


def test_a_rule_has_defaults_for_what_is_left_out() -> None:
    assert (rule().severity, rule().ignore_case, rule().none_of) == (Severity.ERROR, True, ())
    assert rule().failure_class is FailureClass.USER
    assert problems(rule()) == []


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"id": "Boom!"}, "/id", "rule-id"),
        ({"class": "bad-luck"}, "/class", "not-accepted"),
        ({"anyOf": []}, "/anyOf", None),
        ({"anyOf": [[]]}, "/anyOf/0", None),
        ({"anyOf": [["two\nlines"]]}, "/anyOf/0/0", "fragment-never-matches"),
        ({"anyOf": [["colour\x1b[0m"]]}, "/anyOf/0/0", "fragment-never-matches"),
        ({"anyOf": [["x" * 501]]}, "/anyOf/0/0", "fragment-length"),
        ({"anyOf": [["boom", {"regex": "x" * 201}]]}, "/anyOf/0/1", None),
        ({"since": "2.24"}, "/since", "version"),
        ({"matches": ["two\nlines"]}, "/matches/0", "sample-not-a-line"),
        ({"advice": None}, "/advice", None),
        ({"colour": "red"}, "/colour", None),
    ],
)
def test_what_is_no_rule_is_refused_with_its_place(changes: dict, pointer: str, code: str | None) -> None:
    parsed, violations = parse(Rule, written(**changes))
    assert parsed is None
    assert any(each.pointer.startswith(pointer) for each in violations), violations
    if code == "fragment-never-matches":
        assert any("no line has" in each.message for each in violations)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"anyOf": [["bang"]]}, ("/matches/0", "sample-not-matched")),
        ({"matches": []}, ("/matches", "sample-missing")),
        ({"anyOf": [["boom"], ["bang"]]}, ("/anyOf/1", "sample-missing")),
        ({"nonMatches": ["boom boom"]}, ("/nonMatches/0", "sample-matched")),
        ({"noneOf": ["oo"]}, ("/anyOf/0", "set-never-matches")),
        ({"anyOf": [["boom"], ["boom on"]]}, ("/anyOf/1", "set-redundant")),
        ({"anyOf": [["boom"], ["BOOM"]]}, ("/anyOf/1", "set-redundant")),
        ({"anyOf": [["bo"]]}, ("/anyOf/0", "literal-missing")),
        ({"anyOf": [[{"regex": "bo+m"}]]}, ("/anyOf/0", "literal-missing")),
        ({"anyOf": [["boom", {"regex": r"(o)\1"}]]}, ("/anyOf/0/1/regex", "regex-refused")),
        ({"anyOf": [["boom", {"regex": "(?=x)"}]]}, ("/anyOf/0/1/regex", "regex-refused")),
        ({"anyOf": [["boom", {"regex": "o*"}]]}, ("/anyOf/0/1/regex", "regex-refused")),
        ({"anyOf": [["boom", {"regex": r"[^\x00-\xff]"}]]}, ("/anyOf/0/1/regex", "regex-refused")),
        ({"anyOf": [["boom", {"regex": "((o{64}){64}){64}"}]]}, ("/anyOf/0/1/regex", "regex-refused")),
        ({"anyOf": [["boom", {"regex": "(unclosed"}]]}, ("/anyOf/0/1/regex", "regex-refused")),
        ({"since": "nccl 2.24", "until": "nccl 2.9"}, ("/until", "versions-exclude-each-other")),
        ({"since": "nccl 2.24", "until": "pytorch 2.9"}, ("/until", "versions-exclude-each-other")),
    ],
)
def test_a_rule_that_cannot_hold_or_that_its_samples_disprove_is_refused(changes: dict, problem: tuple) -> None:
    assert problems(rule(**changes)) == [problem]


def test_a_catastrophic_regex_is_harmless_here() -> None:
    """Backtracking engines need longer than the universe for this one."""
    test = RegexTest("(((x+x+)+y)+z)+q", ignore_case=False)
    assert not test.holds(b"x" * 8192)


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        (b"LEFT and right", True),
        (b"right before left", True),
        (b"left alone", False),
        (b"exit 17", True),
        (b"exit 17 ", False),
        (b"left right but harmless", False),
        (b"\xff\xfeleft\x00right", True),
    ],
)
def test_sets_are_alternatives_of_fragments_that_stand_together(line: bytes, holds: bool) -> None:
    sets = [["left", "right"], ["exit", {"regex": "exit [0-9]+$"}]]
    made = rule(anyOf=sets, noneOf=["harmless"], matches=["left right", "exit 1"])
    assert LineTest.of(made.line_rule).holds(line) is holds


def test_where_case_counts_it_counts() -> None:
    made = LineTest.of(rule(anyOf=[["Boom"]], ignoreCase=False, matches=["Boom"]).line_rule)
    assert made.holds(b"Boom")
    assert not made.holds(b"boom")


@pytest.mark.parametrize(
    ("narrow", "wide", "implied"),
    [
        ({"anyOf": [["boom on disk"]]}, {"anyOf": [["BOOM"]]}, True),
        ({"anyOf": [["boom", "disk"]]}, {"anyOf": [["boom"]]}, True),
        ({"anyOf": [["boom"]]}, {"anyOf": [["boom", "disk"]]}, False),
        ({"anyOf": [["boom"], ["bang"]]}, {"anyOf": [["boom"]]}, False),
        ({"anyOf": [["boom"], ["bang"]]}, {"anyOf": [["bang"], ["boo"]]}, True),
        ({"anyOf": [["boom"]]}, {"anyOf": [["boom"]], "noneOf": ["safe"]}, False),
        ({"anyOf": [["boom"]], "noneOf": ["safe"]}, {"anyOf": [["boom"]], "noneOf": ["safely"]}, True),
        ({"anyOf": [["boom"]]}, {"anyOf": [["boom"]], "ignoreCase": False}, False),
        ({"anyOf": [["boom"]], "ignoreCase": False}, {"anyOf": [["BOOM"]]}, True),
        ({"anyOf": [["Boom"]], "ignoreCase": False}, {"anyOf": [["boom"]], "ignoreCase": False}, False),
    ],
)
def test_a_rule_implies_another_where_its_fragments_have_the_others(narrow: dict, wide: dict, implied: bool) -> None:
    first, second = (rule(**each).line_rule for each in (narrow, wide))
    assert implies(first, second) is implied


def test_a_rule_that_an_earlier_one_always_takes_is_refused_with_its_name() -> None:
    wide = rule(id="wide")
    narrow = rule(id="narrow", anyOf=[["boom", "disk 7"]])
    assert shadowed_by(narrow, [wide]) == wide
    (violation,) = violations_of(narrow, [wide], ("spec",))
    assert (violation.pointer, violation.code) == ("/spec/anyOf", "rule-shadowed")
    assert "rule wide" in violation.message
    assert problems(wide, narrow) == []


def test_a_shadow_that_regexes_hide_is_seen_in_the_samples() -> None:
    wide = rule(id="wide", anyOf=[["disk", {"regex": "disk [0-9]"}]])
    assert problems(rule(id="narrow", anyOf=[["disk", {"regex": "disk 7"}]]), wide) == [("/anyOf", "rule-shadowed")]
    assert (
        problems(rule(id="other", anyOf=[["disk", {"regex": "disk 7|tape"}]], matches=["disk 7", "disk tape"]), wide)
        == []
    )


def test_a_line_rule_of_texts_looks_for_them_as_written() -> None:
    test = LineTest.of(LineRule.of_texts("message/1", "Left", "right"))
    assert test.holds(b"right Left")
    assert not test.holds(b"right left")
