"""Changes that start a gang now: each is planned, and so is each in this test, in a queue of rivals."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.scheduler.domain.explaining.changes import Change, Means, Offers, as_yaml, changes
from services.scheduler.domain.explaining.pairs import PAIRS_MAX, pairs
from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.gang import Gang, Level, Pool, QueuePolicy, Topology
from services.scheduler.domain.ledger import Ledger, Seat
from services.scheduler.domain.planning.plan import Snapshot, plan
from services.scheduler.domain.planning.running import Running
from services.scheduler.domain.planning.state import State
from services.scheduler.domain.planning.waiting import Queue
from services.scheduler.domain.quotas import Quota
from tests.support.cluster import NOW, POOLS, PUBLIC, ask, clusters, gang, node, request, roles

POOL_CHOICES = {"public": "{type: public}", "other": "{type: dedicated, name: other}"}
OTHER = Pool("other", "main", node_names=frozenset({"b"}))


def trials(gangs, nodes, pools=(PUBLIC,), **more) -> Trials:
    by_name = pools if isinstance(pools, dict) else {pool.name: pool for pool in pools}
    return Trials(Snapshot(Ledger(nodes, by_name).columns, Queue(gangs), **more), NOW)


def found(mine: Gang, *rivals: Gang, nodes, offers=None, overhead_s: float = 0, **more) -> dict[str, Change]:
    made = changes(mine, trials((*rivals, mine), nodes, **more), Means(offers or {}, overhead_s))
    return {change.kind: change for change in made}


def paired(mine: Gang, *rivals: Gang, nodes, offers=None, **more) -> list[tuple[str, ...]]:
    asked = trials((*rivals, mine), nodes, **more)
    return [change.settings for change in pairs(mine, asked, Means(offers or {}))]


def test_the_most_replicas_that_start_are_told_with_the_setting_that_does_it():
    change = found(gang(ask(8)), nodes=[node("a", cores=5)])["replicas"]
    assert (change.before, change.after, change.settings) == ("8", "5", ("spec.roles.0.replicas=5",))
    assert change.text == "5 instead of 8 replicas of role worker"


def test_rivals_that_go_first_are_counted():
    rival = gang(ask(3), job="rival", priority=9)
    assert found(gang(ask(8)), rival, nodes=[node("a", cores=5)])["replicas"].after == "2"


def test_a_quota_is_counted():
    mine = replace(gang(ask(8)), project="vision")
    assert found(mine, nodes=[node("a", cores=9)], quotas={"vision": Quota(replicas=6)})["replicas"].after == "6"


def test_another_pool_is_told_where_the_asker_may_use_it_and_it_has_room():
    nodes, pools = [node("a", cores=1), node("b", cores=4)], (replace(PUBLIC, dedicated=(OTHER,)), OTHER)
    offered = {"worker": Offers(pools=POOL_CHOICES)}
    change = found(gang(ask(4)), nodes=nodes, pools=pools, offers=offered)["pool"]
    assert (change.before, change.after) == ("public", "other")
    assert change.settings == ("spec.roles.0.pool={type: dedicated, name: other}",)
    assert "pool" not in found(gang(ask(4)), nodes=nodes, pools=pools)
    assert "pool" not in found(gang(ask(5)), nodes=nodes, pools=pools, offers=offered)


def test_the_largest_smaller_instance_type_that_starts_is_told():
    types = {"small": request(cores=1), "medium": request(cores=2), "huge": request(cores=9)}
    offered = {"worker": Offers(types=types)}
    change = found(gang(ask(2, cores=4)), nodes=[node("a", cores=5)], offers=offered)["type"]
    assert (change.after, change.settings) == ("medium", ("spec.roles.0.instanceType=medium",))


def test_a_type_without_gpus_is_none_for_a_role_with_gpus():
    offered = {"worker": Offers(types={"cpu": request(cores=1)})}
    assert "type" not in found(gang(ask(2, gpus=1)), nodes=[node("a", gpus=1)], offers=offered)


def test_conditions_of_the_user_that_are_in_the_way_are_told():
    assert "nodes" in found(gang(ask(1), excluded=("a",)), nodes=[node("a")])
    hard = replace(gang(ask(16)), topology=Topology(Level.LEAF, hard=True))
    nodes = [node("a", labels={"leaf": "1"}), node("b", labels={"leaf": "2"})]
    assert found(hard, nodes=nodes)["topology"].settings == ("spec.topology.mode=soft",)


def test_a_time_limit_is_told_with_which_it_is_gone_before_a_kept_place_is_needed():
    head, mine = gang(ask(8), job="head", priority=9), gang(ask(2), job="mine", sequence=2)
    made = State([node("a", cores=8)], {"public": PUBLIC})
    runs = Running("g-1", "tj-r", 5, "", "", (ask(4),), NOW, NOW + timedelta(hours=2))
    made.hold(runs, tuple(Seat("worker", index, "n-a", request()) for index in range(4)))
    made.wait(head)
    made.wait(mine)
    change = next(
        one for one in changes(mine, Trials(made.snapshot(), NOW), Means({}, 600)) if one.kind == "maxRunTime"
    )
    assert change.settings == ("spec.maxRunTime=110m",)


def test_roles_that_share_a_pool_are_told_how_many_of_both_start():
    mine = gang(ask(4, "ps"), ask(8), job="mine")
    made = list(changes(mine, trials((mine,), [node("a", cores=6)]), Means()))
    assert [change.settings for change in made] == [
        ("spec.roles.1.replicas=2",),
        ("spec.roles.0.replicas=2", "spec.roles.1.replicas=4"),
    ]
    assert made[1].text == "2 instead of 4 replicas of role ps and 4 instead of 8 replicas of role worker"


def test_roles_of_one_pool_are_told_another_for_all_of_them():
    nodes, pools = [node("a", cores=1), node("b", cores=4)], (replace(PUBLIC, dedicated=(OTHER,)), OTHER)
    offers = {name: Offers(pools=POOL_CHOICES) for name in ("ps", "worker")}
    change = found(gang(ask(2, "ps"), ask(2)), nodes=nodes, pools=pools, offers=offers)["pool"]
    assert change.text == "pool 'other' instead of 'public' for all roles"
    assert [setting.partition("=")[0] for setting in change.settings] == ["spec.roles.0.pool", "spec.roles.1.pool"]


def test_where_no_change_alone_starts_it_two_together_are_told():
    nodes, pools = [node("a", cores=1), node("b", cores=4)], (replace(PUBLIC, dedicated=(OTHER,)), OTHER)
    offered = {"worker": Offers(pools=POOL_CHOICES, types={"small": request(cores=1)})}
    mine = gang(ask(3, cores=2))
    assert found(mine, nodes=nodes, pools=pools, offers=offered) == {}
    assert paired(mine, nodes=nodes, pools=pools, offers=offered) == [
        ("spec.roles.0.pool={type: dedicated, name: other}", "spec.roles.0.instanceType=small"),
    ]
    only_pools = {"worker": Offers(pools=POOL_CHOICES)}
    assert paired(mine, nodes=nodes, pools=pools, offers=only_pools) == [
        ("spec.roles.0.pool={type: dedicated, name: other}", "spec.roles.0.replicas=2"),
    ]
    hard = replace(gang(ask(9), excluded=("a",)), topology=Topology(Level.LEAF, hard=True))
    leaves = [node("a", cores=5, labels={"leaf": "1"}), node("b", cores=5, labels={"leaf": "2"})]
    assert ("spec.excludeNodes=null", "spec.topology.mode=soft") in paired(hard, nodes=leaves)


def test_of_many_pairs_the_first_few_are_told():
    many = {f"pool-{number}": "" for number in range(2 * PAIRS_MAX)}
    pools = tuple(Pool(name, "main", node_names=frozenset({"b"})) for name in many)
    offers = {"worker": Offers(pools=many)}
    told = paired(gang(ask(9)), nodes=[node("a", cores=0), node("b")], pools=(PUBLIC, *pools), offers=offers)
    assert len(told) == PAIRS_MAX


@given(st.text(st.characters(categories=("L", "N"), include_characters="{},#-._&!'"), min_size=1))
@example("true")
@example("on")
def test_a_name_is_written_so_that_it_is_read_as_this_name(name):
    assert yaml.safe_load(f"{{name: {as_yaml(name)}}}") == {"name": name}


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
    offers = {role.name: Offers({"public": "", "team": ""}, {"tiny": request()}) for role in wanted}
    asked = trials((*others, mine), nodes, pools, quotas={"": Quota(replicas=12)})
    if any(start.gang.job == "mine" for start in asked.plan.starts):
        return
    single = tuple(changes(mine, asked, Means(offers)))
    for change in single or pairs(mine, asked, Means(offers)):
        again = plan(replace(asked.snapshot, queue=Queue((*others, change.gang))), NOW)
        assert "mine" in [start.gang.job for start in again.starts]
