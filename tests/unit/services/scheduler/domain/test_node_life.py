"""States of nodes: what engine, diagnoser and admins want of them, and how many a pool may miss."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.gang import Pool
from services.scheduler.domain.node_life import (
    LOST_SHOWN,
    NodeRecord,
    allowed,
    change_of,
    folded,
    is_shown,
    lives,
    node_of,
    report_of,
)
from services.scheduler.domain.nodes import Node, NodeState
from shared import events as ev
from shared.jobs import Recorded
from tests.support.cluster import PUBLIC, node
from tests.support.jobs import START

NODES = tuple(node(f"{number}") for number in range(10))
POOLS = {"public": PUBLIC}


def recorded(payload: ev.Payload, sequence: int = 1) -> Recorded:
    at = START + timedelta(seconds=sequence)
    event = ev.Event.of(payload, job="n-0", attempt=0, time=at, owner="", project="")
    return Recorded(sequence, "", event)


def mark(wish: str, by: str = "root") -> ev.NodeMarked:
    return ev.NodeMarked(cluster="main", node="n-0", wish=wish, by=by, reason="because")


def judge(health: str) -> ev.NodeJudged:
    return ev.NodeJudged(cluster="main", node="n-0", health=health, reason="a wrong checksum", job="tj-a")


LATER = START + timedelta(minutes=1)
BACK = ev.NodeRecalled(cluster="main", node="n-0", by="root", reason="a new fan")


def diagnosed(verdict: str, **more) -> ev.NodeDiagnosed:
    fields = {"cluster": "main", "node": "n-0", "diagnosis": "dg-a", "began": LATER, "took_s": 1, "verdict": verdict}
    return ev.NodeDiagnosed.model_validate({**fields, **more})


def record(*payloads: ev.Payload, of: Node = NODES[0], first: int = 1) -> NodeRecord:
    made = folded(NodeRecord(of.id), recorded(report_of(of)))
    for sequence, payload in enumerate(payloads, start=first):
        made = folded(made, recorded(payload, sequence))
    return made


def records(*made: NodeRecord) -> dict[str, NodeRecord]:
    return {one.id: one for one in made}


def states(known: dict[str, NodeRecord], offered=NODES, pools=POOLS, cap_percent: int = 10) -> dict[str, NodeState]:
    found = lives(offered, known, pools, cap_percent=cap_percent)
    return {node_id: life.state for node_id, life in found.items() if life.state is not NodeState.READY}


@pytest.mark.parametrize(
    ("payloads", "state"),
    [
        ((), None),
        ((mark("Draining"),), NodeState.DRAINING),
        ((mark("Draining"), mark("Quarantined")), NodeState.QUARANTINED),
        ((mark("Quarantined"), mark("Ready")), None),
        ((judge("suspect"),), None),
        ((judge("bad"),), NodeState.QUARANTINED),
        ((judge("bad"), mark("Ready")), None),
        ((judge("bad"), judge("good")), None),
        ((mark("Quarantined"), judge("good")), NodeState.QUARANTINED),
        ((mark("Draining"), judge("bad")), NodeState.DRAINING),
        ((judge("bad"), BACK), NodeState.QUARANTINED),
        ((judge("bad"), BACK, judge("good")), None),
        ((judge("bad"), BACK, mark("Ready")), None),
        ((judge("bad"), judge("good"), BACK), None),
        ((mark("Draining"), judge("bad"), BACK), NodeState.QUARANTINED),
        ((mark("Draining"), judge("bad"), BACK, judge("good")), None),
    ],
)
def test_the_state_of_a_node_follows_from_what_was_wished_last(payloads, state: NodeState | None):
    assert states(records(record(*payloads))) == ({"n-0": state} if state else {})


def test_a_suspect_node_is_ready_and_says_why_it_is_suspect():
    life = lives(NODES, records(record(judge("suspect"))), POOLS, cap_percent=10)["n-0"]
    assert (life.state, life.reason, life.by) == (NodeState.READY, "a wrong checksum", "diagnoser")


@pytest.mark.parametrize(
    ("then", "still"),
    [
        ((), True),
        ((diagnosed("red"),), False),
        ((diagnosed("red", fresh=False),), False),
        ((diagnosed("red", began=START),), True),
        ((diagnosed("green", fresh=False),), True),
        ((mark("Ready"),), False),
    ],
)
def test_a_bad_node_is_wanted_back_until_it_was_tested(then, still: bool):
    life = lives(NODES, records(record(judge("bad"), BACK, *then)), POOLS, cap_percent=10)["n-0"]
    assert (life.returning is not None) is still
    if still:
        assert (life.returning.by, life.returning.reason, life.by) == ("root", "a new fan", "diagnoser")


def test_a_node_that_the_engine_does_not_offer_is_lost_with_what_it_had_and_comes_back_as_it_was_wished():
    known = records(record(mark("Draining")))
    lost = lives(NODES[1:], known, POOLS, cap_percent=10)["n-0"]
    assert (lost.state, lost.node.cpu_m, lost.node.name) == (NodeState.LOST, NODES[0].cpu_m, "0")
    assert states(known, NODES) == {"n-0": NodeState.DRAINING}


def test_what_the_engine_says_of_a_node_holds_where_nobody_wants_anything_else():
    closed = replace(NODES[0], state=NodeState.DRAINING, because="it is cordoned")
    life = lives([closed], {}, POOLS, cap_percent=10)[closed.id]
    assert (life.state, life.reason, life.by) == (NodeState.DRAINING, "it is cordoned", "engine")
    wished = records(record(mark("Quarantined")))
    assert lives([closed], wished, POOLS, cap_percent=10)[closed.id].state is NodeState.QUARANTINED


def test_a_node_that_the_engine_calls_lost_is_lost_whatever_was_wished():
    silent = replace(NODES[0], state=NodeState.LOST, because="it is silent")
    found = lives([silent], records(record(mark("Draining"))), POOLS, cap_percent=10)[silent.id]
    assert (found.state, found.reason) == (NodeState.LOST, "it is silent")


def test_a_node_that_was_never_reported_is_not_lost():
    assert states(records(folded(NodeRecord("n-x"), recorded(mark("Draining"))))) == {}


def bad(number: int) -> NodeRecord:
    return record(judge("bad"), of=NODES[number], first=100 - number)


def test_quarantines_are_granted_in_the_order_in_which_they_were_wished_up_to_the_cap():
    found = lives(NODES, records(bad(1), bad(2), bad(3)), POOLS, cap_percent=20)
    assert [life.node.id for life in found.values() if life.state is NodeState.QUARANTINED] == ["n-2", "n-3"]
    assert [life.node.id for life in found.values() if life.withheld] == ["n-1"]
    assert found["n-1"].state is NodeState.READY


def test_a_withheld_quarantine_is_granted_once_another_node_is_restored():
    restored = record(judge("bad"), mark("Ready"), of=NODES[2])
    assert states(records(bad(1), restored)) == {"n-1": NodeState.QUARANTINED}


def test_an_admins_quarantine_is_not_capped_and_counts():
    admins = [record(mark("Quarantined"), of=NODES[number]) for number in (4, 5, 6)]
    assert states(records(*admins, bad(1))) == dict.fromkeys(("n-4", "n-5", "n-6"), NodeState.QUARANTINED)


def test_every_pool_of_a_node_must_have_room():
    pools = POOLS | {"pair": Pool("pair", "main", node_names=frozenset({"1", "2"}))}
    assert states(records(bad(1), bad(2)), pools=pools, cap_percent=50) == {"n-2": NodeState.QUARANTINED}


@pytest.mark.parametrize(
    ("size", "percent", "most"),
    [(0, 10, 0), (1, 10, 0), (2, 10, 1), (9, 10, 1), (100, 10, 10), (100, 0, 0), (3, 100, 3)],
)
def test_a_pool_may_miss_its_share_and_one_of_several(size: int, percent: int, most: int):
    assert allowed(size, percent) == most


@given(st.lists(st.integers(0, 9), unique=True), st.integers(0, 100), st.randoms())
def test_no_more_are_taken_out_than_the_cap_whatever_the_order_of_nodes(numbers, percent, random):
    known = records(*map(bad, numbers))
    shuffled = dict(random.sample(sorted(known.items()), len(known)))
    found = states(known, cap_percent=percent)
    assert len(found) == min(len(numbers), allowed(len(NODES), percent))
    assert found == states(shuffled, random.sample(NODES, len(NODES)), cap_percent=percent)


def test_a_report_gives_the_node_back():
    whole = node("g", gpus=2, labels={"leaf": "1"})
    assert node_of(report_of(whole)) == whole


def test_a_change_is_announced_once():
    known = record(judge("bad"))
    life = lives(NODES, records(known), POOLS, cap_percent=10)["n-0"]
    change = change_of(life, known)
    assert change is not None
    assert (change.before, change.state, change.by, change.withheld) == ("Ready", "Quarantined", "diagnoser", False)
    assert change_of(life, folded(known, recorded(change, 9))) is None


def test_a_withheld_quarantine_is_announced():
    known = record(judge("bad"))
    change = change_of(lives(NODES, records(known), POOLS, cap_percent=0)["n-0"], known)
    assert change is not None
    assert (change.state, change.withheld) == ("Ready", True)


def test_an_ordinary_node_is_nothing_to_announce():
    assert change_of(lives(NODES, {}, POOLS, cap_percent=10)["n-0"], None) is None


def test_a_lost_node_is_told_of_for_a_day_and_while_something_is_held_on_it():
    known = record()
    life = lives(NODES[1:], records(known), POOLS, cap_percent=10)["n-0"]
    change = change_of(life, known)
    assert change is not None
    announced = folded(known, recorded(change, 1))
    later = START + LOST_SHOWN + timedelta(seconds=1)
    assert is_shown(life, announced, (), later - timedelta(seconds=1))
    assert not is_shown(life, announced, (), later)
    assert is_shown(life, announced, ("n-0",), later)
