"""Everything that is found counts, some of it is told."""

from __future__ import annotations

from services.watchdog.domain.matching import Hit
from services.watchdog.domain.policy import Found
from services.watchdog.domain.telling import TOLD_OF_ATTEMPT, TOLD_OF_RULE, incident_of, is_told, part_of
from shared.events import ReplicaRef
from tests.support.jobs import START

HIT = Hit("message/1", "boom", ("before",))


def found(rule: str, index: int) -> Found:
    return Found(rule, ReplicaRef(role="worker", index=index), "boom")


def test_of_each_rule_a_few_replicas_are_told() -> None:
    earlier = [found("message/1", index) for index in range(TOLD_OF_RULE)]
    assert is_told(HIT, earlier[:-1])
    assert not is_told(HIT, earlier)
    assert is_told(Hit("message/2", "x"), earlier)


def test_of_one_attempt_no_more_than_so_many_are_told() -> None:
    rules = TOLD_OF_ATTEMPT // TOLD_OF_RULE
    earlier = [found(f"message/{rule}", index) for rule in range(2, rules + 2) for index in range(9)]
    assert not is_told(HIT, earlier)


def test_the_incident_of_a_find_has_its_line_and_a_fixed_id() -> None:
    replica = ReplicaRef(role="ps", index=3)
    incident = incident_of(HIT, replica, START)
    assert (incident.line, incident.before, incident.action, incident.at) == ("boom", ("before",), "none", START)
    assert part_of(HIT, replica) == "message/1/ps/3"
