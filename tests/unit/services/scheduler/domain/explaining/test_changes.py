"""Changes that start a gang now: each is planned, and so is each in this test, in a queue of rivals."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from services.scheduler.domain.explaining.changes import Change, Offers, changes
from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.gang import Gang, Level, Pool, QueuePolicy, Topology
from services.scheduler.domain.ledger import Ledger, Seat
from services.scheduler.domain.planning.plan import Snapshot, plan
from services.scheduler.domain.planning.running import Running
from services.scheduler.domain.planning.state import State
from services.scheduler.domain.planning.waiting import Queue
from services.scheduler.domain.quotas import Quota
from tests.support.cluster import NOW, POOLS, PUBLIC, ask, clusters, gang, node, request, roles

OTHER = Pool("other", "main", node_names=frozenset({"b"}))


def trials(gangs, nodes, pools=(PUBLIC,), **more) -> Trials:
    by_name = pools if isinstance(pools, dict) else {pool.name: pool for pool in pools}
    return Trials(Snapshot(Ledger(nodes, by_name).columns, Queue(gangs), **more), NOW)


def found(mine: Gang, *rivals: Gang, nodes, offers=None, overhead_s: float = 0, **more) -> dict[str, Change]:
    made = changes(mine, trials((*rivals, mine), nodes, **more), offers or {}, overhead_s)
    return {change.kind: change for change in made}


def test_the_most_replicas_that_start_are_told_with_the_setting_that_does_it():
    change = found(gang(ask(8)), nodes=[node("a", cores=5)])["replicas"]
    assert (change.before, change.after, change.setting) == ("8", "5", "spec.roles.0.replicas=5")
    assert change.text == "5 instead of 8 replicas of role worker"


def test_rivals_that_go_first_are_counted():
    rival = gang(ask(3), job="rival", priority=9)
    assert found(gang(ask(8)), rival, nodes=[node("a", cores=5)])["replicas"].after == "2"


def test_a_quota_is_counted():
    mine = replace(gang(ask(8)), project="vision")
    assert found(mine, nodes=[node("a", cores=9)], quotas={"vision": Quota(replicas=6)})["replicas"].after == "6"


def test_another_pool_is_told_where_the_asker_may_use_it_and_it_has_room():
    nodes, pools = [node("a", cores=1), node("b", cores=4)], (replace(PUBLIC, dedicated=(OTHER,)), OTHER)
    offered = {"worker": Offers(pools=("public", "other"))}
    change = found(gang(ask(4)), nodes=nodes, pools=pools, offers=offered)["pool"]
    assert (change.before, change.after) == ("public", "other")
    assert "pool" not in found(gang(ask(4)), nodes=nodes, pools=pools)
    assert "pool" not in found(gang(ask(5)), nodes=nodes, pools=pools, offers=offered)


def test_the_largest_smaller_instance_type_that_starts_is_told():
    types = {"small": request(cores=1), "medium": request(cores=2), "huge": request(cores=9)}
    offered = {"worker": Offers(types=types)}
    change = found(gang(ask(2, cores=4)), nodes=[node("a", cores=5)], offers=offered)["type"]
    assert (change.after, change.setting) == ("medium", "spec.roles.0.instanceType=medium")


def test_a_type_without_gpus_is_none_for_a_role_with_gpus():
    offered = {"worker": Offers(types={"cpu": request(cores=1)})}
    assert "type" not in found(gang(ask(2, gpus=1)), nodes=[node("a", gpus=1)], offers=offered)


def test_conditions_of_the_user_that_are_in_the_way_are_told():
    assert "nodes" in found(gang(ask(1), excluded=("a",)), nodes=[node("a")])
    hard = replace(gang(ask(16)), topology=Topology(Level.LEAF, hard=True))
    nodes = [node("a", labels={"leaf": "1"}), node("b", labels={"leaf": "2"})]
    assert found(hard, nodes=nodes)["topology"].setting == "spec.topology.mode=soft"


def test_a_time_limit_is_told_with_which_it_is_gone_before_a_kept_place_is_needed():
    head, mine = gang(ask(8), job="head", priority=9), gang(ask(2), job="mine", sequence=2)
    made = State([node("a", cores=8)], {"public": PUBLIC})
    runs = Running("g-1", "tj-r", 5, "", "", (ask(4),), NOW, NOW + timedelta(hours=2))
    made.hold(runs, tuple(Seat("worker", index, "n-a", request()) for index in range(4)))
    made.wait(head)
    made.wait(mine)
    change = next(one for one in changes(mine, Trials(made.snapshot(), NOW), {}, 600) if one.kind == "maxRunTime")
    assert change.setting == "spec.maxRunTime=110m"


def test_what_starts_without_a_change_needs_none_and_what_nothing_starts_has_none():
    assert found(gang(ask(cores=99)), nodes=[node("a")]) == {}


@settings(max_examples=150, deadline=None)
@given(
    clusters,
    st.lists(st.tuples(roles, st.integers(1, 9)), max_size=4),
    roles,
    st.frozensets(st.sampled_from(["a", "b"])),
    st.sampled_from([QueuePolicy.FIFO, QueuePolicy.BACKFILL]),
)
def test_every_change_that_is_told_starts_the_gang_when_it_is_made(nodes, rivals, wanted, excluded, policy):
    pools = POOLS | {"public": replace(PUBLIC, policy=policy)}
    others = [
        gang(*theirs, job=f"tj-{number}", priority=priority, sequence=number + 2)
        for number, (theirs, priority) in enumerate(rivals)
    ]
    mine = gang(*wanted, job="mine", sequence=1, excluded=tuple(excluded))
    offers = {role.name: Offers(("public", "team"), {"tiny": request()}) for role in wanted}
    asked = trials((*others, mine), nodes, pools, quotas={"": Quota(replicas=12)})
    if any(start.gang.job == "mine" for start in asked.plan.starts):
        return
    for change in changes(mine, asked, offers, 0):
        assert change.gang is not None
        again = plan(replace(asked.snapshot, queue=Queue((*others, change.gang))), NOW)
        assert "mine" in [start.gang.job for start in again.starts]
