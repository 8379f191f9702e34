"""Everything that is found counts, some of it is told."""

from __future__ import annotations

from services.watchdog.catalogue import built_in_rules
from services.watchdog.domain.matching import Hit
from services.watchdog.domain.telling import TOLD_OF_ATTEMPT, TOLD_OF_RULE, are_told, incident_of, part_of
from services.watchdog.domain.torchrun import ROOT_CAUSE
from shared.events import ReplicaRef
from tests.support.jobs import START

HIT = Hit("message/1", "boom", ("before",))
RULES = {rule.id: rule for rule in built_in_rules()}


def told(hits: list[Hit], earlier: list[str] | None = None) -> list[str]:
    return [hit.rule for hit in are_told(hits, earlier or [], RULES)]


def test_of_each_rule_a_few_replicas_are_told() -> None:
    earlier = ["message/1"] * TOLD_OF_RULE
    assert told([HIT], earlier[:-1]) == ["message/1"]
    assert told([HIT], earlier) == []
    assert told([Hit("message/2", "x")], earlier) == ["message/2"]


def test_of_one_attempt_no_more_than_so_many_are_told() -> None:
    rules = TOLD_OF_ATTEMPT // TOLD_OF_RULE
    assert told([HIT], [f"message/{rule}" for rule in range(2, rules + 2)] * 9) == []


def test_of_rules_that_hold_on_one_line_the_first_is_told() -> None:
    hits = [Hit("message/1", "x", offset=7), Hit("cuda-oom", "x", offset=7), Hit("cuda-oom", "y", offset=9)]
    assert told(hits) == ["message/1", "cuda-oom"]


def test_what_is_seen_again_and_what_is_only_a_note_is_not_told() -> None:
    hits = [Hit("message/1", "x", again=True), Hit("loss-overflow", "x", offset=1), Hit(ROOT_CAUSE, "rank 1", offset=2)]
    assert told(hits) == []


def test_the_incident_of_a_find_has_its_line_and_a_fixed_id() -> None:
    replica = ReplicaRef(role="ps", index=3)
    incident = incident_of(HIT, replica, START, None)
    assert (incident.line, incident.before, incident.action, incident.at) == ("boom", ("before",), "none", START)
    assert (incident.failure_class, incident.severity, incident.advice) == (None, None, "")
    assert part_of(HIT, replica) == "message/1/ps/3"


def test_the_incident_of_a_rule_of_the_catalogue_says_what_to_do() -> None:
    rule = RULES["cuda-oom"]
    incident = incident_of(Hit(rule.id, "x"), ReplicaRef(role="ps", index=3), START, rule)
    assert (incident.failure_class, incident.severity, incident.advice) == ("user", "error", rule.advice)
