"""What is wrong with a rule: one that can never hold, that says nothing of its own, or that its own samples disprove.

A rule is judged alone (`wrong_with`) and against the rules that stand before it (`shadowed_by`): of several rules that
hold on a line the first one wins, so a rule every line of which an earlier one takes would never be heard. That is seen
in the fragments, where each of an earlier rule's is part of this rule's; and, where regexes hide it, in the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from services.watchdog.domain.lines import BadRegexError, LineTest, RegexTest
from services.watchdog.domain.rules import LITERAL_MIN_BYTES, Fragment, LineRule, Rule, version_parts
from shared.documents.fields import shown
from shared.documents.parsing import pointer
from shared.errors import Violation

Place = tuple[str | int, ...]


def violations_of(rule: Rule, earlier: Iterable[Rule] = (), place: Place = ()) -> tuple[Violation, ...]:
    """Everything that is wrong with the rule; `place` is where it stands in the document that was given."""
    wrong = tuple(wrong_with(rule, place))
    if wrong:
        return wrong
    shadow = shadowed_by(rule, earlier)
    if shadow is None:
        return ()
    message = (
        f"every line that {rule.id} looks for is taken by rule {shadow.id}, which stands before it; look for "
        f"something that {shadow.id} does not have, or change that rule"
    )
    return (Violation(pointer((*place, "anyOf")), "rule-shadowed", message),)


def wrong_with(rule: Rule, place: Place = ()) -> Iterator[Violation]:
    """What is wrong with the rule, whatever other rules there are."""
    wrong = [*_bad_regexes(rule, place), *_bad_sets(rule, place), *_bad_versions(rule, place)]
    yield from wrong
    if not wrong:
        yield from _bad_samples(rule, place)


def shadowed_by(rule: Rule, earlier: Iterable[Rule]) -> Rule | None:
    """An earlier rule that takes every line which this rule holds on."""
    samples = [sample.encode() for sample in rule.matches]
    for other in earlier:
        if implies(rule.line_rule, other.line_rule):
            return other
        test = LineTest.of(other.line_rule)
        if samples and all(map(test.holds, samples)) and _has_regex(rule, other):
            return other
    return None


def implies(narrow: LineRule, wide: LineRule) -> bool:
    """Whether the wide rule holds on every line on which the narrow one does, as far as fragments tell."""
    folds = wide.ignore_case
    nothing_more_excluded = all(
        any(_contains(given, mine, folds=narrow.ignore_case) for mine in narrow.none_of) for given in wide.none_of
    )
    if not nothing_more_excluded or (narrow.ignore_case and not wide.ignore_case):
        return False
    return all(any(_set_implies(mine, theirs, folds=folds) for theirs in wide.any_of) for mine in narrow.any_of)


def _set_implies(narrow: Sequence[Fragment], wide: Sequence[Fragment], *, folds: bool) -> bool:
    return all(any(_contains(mine, theirs, folds=folds) for mine in narrow) for theirs in wide)


def _contains(longer: Fragment, part: Fragment, *, folds: bool) -> bool:
    """Whether a line that has the one fragment has the other one, too."""
    if longer.is_regex or part.is_regex:
        return longer == part
    return part.text.lower() in longer.text.lower() if folds else part.text in longer.text


def _has_regex(*rules: Rule) -> bool:
    return any(each.is_regex for rule in rules for fragments in rule.line_rule.any_of for each in fragments)


def _bad_regexes(rule: Rule, place: Place) -> Iterator[Violation]:
    sets = [((*place, "anyOf", number), fragments) for number, fragments in enumerate(rule.line_rule.any_of)]
    for where, fragments in [*sets, ((*place, "noneOf"), rule.line_rule.none_of)]:
        for index, fragment in enumerate(fragments):
            reason = _why_no_regex(fragment, ignore_case=rule.ignore_case) if fragment.is_regex else None
            if reason is not None:
                message = f"{shown(fragment.text)} cannot be used as a regex: {reason}; write one without it"
                yield Violation(pointer((*where, index, "regex")), "regex-refused", message)


def _why_no_regex(fragment: Fragment, *, ignore_case: bool) -> str | None:
    try:
        RegexTest(fragment.text, ignore_case=ignore_case)
    except BadRegexError as error:
        return str(error)
    return None


def _bad_sets(rule: Rule, place: Place) -> Iterator[Violation]:
    line_rule = rule.line_rule
    for number, fragments in enumerate(line_rule.any_of):
        where = pointer((*place, "anyOf", number))
        if not any(len(each.text.encode()) >= LITERAL_MIN_BYTES for each in fragments if not each.is_regex):
            message = (
                f"a set has at least one text of {LITERAL_MIN_BYTES} bytes or more, and this one has none; add one"
            )
            yield Violation(where, "literal-missing", message)
        excluding = _excluding(fragments, line_rule)
        if excluding is not None:
            message = f"this set can never hold: what it looks for has {shown(excluding.text)}, which noneOf excludes"
            yield Violation(where, "set-never-matches", message)
        others = [each for index, each in enumerate(line_rule.any_of) if index != number]
        wider = next((each for each in others if _is_wider(each, fragments, line_rule, number)), None)
        if wider is not None:
            message = "this set adds nothing: another set of the rule holds wherever it does; leave one of them out"
            yield Violation(where, "set-redundant", message)


def _excluding(fragments: Sequence[Fragment], rule: LineRule) -> Fragment | None:
    folds = rule.ignore_case
    return next((no for no in rule.none_of if any(_contains(each, no, folds=folds) for each in fragments)), None)


def _is_wider(other: Sequence[Fragment], fragments: Sequence[Fragment], rule: LineRule, number: int) -> bool:
    """Of two sets that say the same the later one is redundant."""
    if not _set_implies(fragments, other, folds=rule.ignore_case):
        return False
    mutual = _set_implies(other, fragments, folds=rule.ignore_case)
    return not mutual or rule.any_of.index(tuple(other)) < number


def _bad_versions(rule: Rule, place: Place) -> Iterator[Violation]:
    if rule.since is None or rule.until is None:
        return
    (library, since), (other, until) = version_parts(rule.since), version_parts(rule.until)
    if library != other or since > until:
        message = f"nothing is of {rule.since} or later and of {rule.until} or earlier; give versions of one library"
        yield Violation(pointer((*place, "until")), "versions-exclude-each-other", message)


def _bad_samples(rule: Rule, place: Place) -> Iterator[Violation]:
    test = LineTest.of(rule.line_rule)
    if not rule.matches:
        message = "there is no sample that shows that the rule can hold; give at least one line under matches"
        yield Violation(pointer((*place, "matches")), "sample-missing", message)
    matched = any(test.holds(sample.encode()) for sample in rule.matches)
    for number, sample in enumerate(rule.matches):
        if not test.holds(sample.encode()):
            message = f"the rule does not hold on its own sample {shown(sample)}; change the fragments or the sample"
            yield Violation(pointer((*place, "matches", number)), "sample-not-matched", message)
    for number, sample in enumerate(rule.non_matches):
        if test.holds(sample.encode()):
            message = f"the rule holds on {shown(sample)}, where it should not; make it narrower, or use noneOf"
            yield Violation(pointer((*place, "nonMatches", number)), "sample-matched", message)
    for number in range(len(rule.any_of)):
        if matched and not any(test.set_holds(number, sample.encode()) for sample in rule.matches):
            message = "no sample shows that this set can hold; give a line under matches on which it does"
            yield Violation(pointer((*place, "anyOf", number)), "sample-missing", message)
