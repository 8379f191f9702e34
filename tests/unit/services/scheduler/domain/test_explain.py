"""Why a gang does not fit, in numbers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from services.scheduler.domain.explain import Verdict, explain
from services.scheduler.domain.gang import Level, Topology
from services.scheduler.domain.ledger import Ledger, Seat
from services.scheduler.domain.nodes import NodeState
from services.scheduler.domain.planning.fit import fit
from tests.support.cluster import POOLS, PUBLIC, ask, clusters, gang, node, request, roles


def ledger(*nodes, used: dict[str, int] | None = None, pools=None) -> Ledger:
    made = Ledger(nodes, pools or {"public": PUBLIC})
    for number, (name, cores) in enumerate((used or {}).items()):
        made.hold(f"g{number}", [Seat("w", 0, f"n-{name}", request(cores=cores))])
    return made


def test_what_fits_is_only_waiting_for_its_turn():
    assert explain(gang(), ledger(node("a")).columns).verdict is Verdict.FITS


def test_a_short_resource_is_named_with_what_is_needed_free_and_there():
    free = ledger(node("a", cores=8), node("b", cores=8), used={"a": 6, "b": 4}).columns
    answer = explain(gang(ask(3, cores=4)), free)
    (blocker,) = answer.blockers
    assert answer.verdict is Verdict.WAITS
    assert (blocker.role, blocker.resource) == ("worker", "cpu")
    assert (blocker.needed, blocker.available, blocker.total, blocker.largest) == (12_000, 6_000, 16_000, 4_000)
    assert blocker.detail == (
        "role worker needs 3 x 4 cores in pool 'public'; 6 cores of 16 cores are free, at most 4 cores on one node"
    )


def test_what_is_larger_than_the_cluster_never_fits():
    answer = explain(gang(ask(5, cores=8)), ledger(node("a", cores=8), node("b", cores=8)).columns)
    assert answer.verdict is Verdict.NEVER


def test_suspect_nodes_are_counted():
    nodes = [node("a"), node("b", suspect=True), node("c", suspect=True, state=NodeState.DRAINING)]
    summary = explain(gang(ask(17)), ledger(*nodes).columns).summary
    assert "of the 3 nodes there are 1 Draining, which get no gangs; 1 of the nodes that do are suspect" in summary


def test_gpus_are_counted_by_model():
    free = ledger(node("a", gpus=2), node("b", gpus=1, model="H100")).columns
    (blocker,) = explain(gang(ask(2, gpus=1, model="H100")), free).blockers
    assert (blocker.resource, blocker.needed, blocker.available, blocker.total) == ("gpu", 2, 1, 1)
    assert "2 x 1 GPU H100" in blocker.detail


def test_nodes_that_take_no_more_pods_are_told_with_how_many_they_take():
    full = node("a", cores=64, slots=3)
    found = explain(gang(ask(5)), ledger(full, node("b", cores=64, slots=1)).columns)
    (blocker,) = found.blockers
    assert (found.verdict, blocker.resource, blocker.needed, blocker.available) == (Verdict.NEVER, "pods", 5, 4)
    assert "needs 5 x 1 pod in pool 'public'; 4 pods of 4 pods are free, at most 3 pods on one node" in blocker.detail


def test_enough_of_everything_but_on_no_node_together_is_told_as_replicas():
    free = ledger(node("a", cores=8, memory_gib=1), node("b", cores=1, memory_gib=8)).columns
    (blocker,) = explain(gang(ask(1, cores=4, memory_gib=4)), free).blockers
    assert (blocker.resource, blocker.needed, blocker.available) == ("replicas", 1, 0)
    assert "no node has it together" in blocker.detail


def test_roles_of_which_each_fits_alone_are_told_what_they_need_together():
    free = ledger(node("a", cores=4), node("b", cores=4), used={"b": 2}).columns
    (blocker,) = explain(gang(ask(2, "ps", cores=2), ask(3, cores=1)), free).blockers
    assert (blocker.role, blocker.resource) == ("ps, worker", "cpu")
    assert (blocker.needed, blocker.available, blocker.total, blocker.largest) == (7_000, 6_000, 8_000, 4_000)
    assert blocker.detail == (
        "each of the roles ps, worker fits alone, but together they need 7 cores in pool 'public'; "
        "6 cores of 8 cores are free"
    )


def test_roles_whose_replicas_leave_no_room_for_each_other_are_told_how_many_have_a_place():
    free = ledger(node("a", cores=5), node("b", cores=5), used={"a": 1}).columns
    answer = explain(gang(ask(2, "ps", cores=3), ask(1, cores=4)), free)
    (blocker,) = answer.blockers
    assert answer.verdict is Verdict.NEVER
    assert (blocker.role, blocker.resource) == ("ps, worker", "replicas")
    assert (blocker.needed, blocker.available, blocker.total) == (3, 2, 2)
    assert "there is a place for 2 of them now, and for 2 with nothing else running" in blocker.detail


def test_a_pool_without_usable_nodes_is_told_so():
    free = ledger(node("a", state=NodeState.DRAINING)).columns
    (blocker,) = explain(gang(), free).blockers
    assert (blocker.resource, blocker.available) == ("nodes", 0)


def test_nodes_that_get_no_gangs_are_counted_by_their_state():
    nodes = [node("a"), node("b", state=NodeState.DRAINING), node("c", state=NodeState.LOST)]
    answer = explain(gang(ask(9)), ledger(*nodes).columns)
    assert answer.summary.endswith("; of the 3 nodes there are 1 Draining, 1 Lost, which get no gangs")


def test_a_pool_that_is_gone_is_told_so():
    (blocker,) = explain(gang(ask(pool="gone")), ledger(node("a")).columns).blockers
    assert blocker.detail == "there is no pool 'gone' for role worker"


def test_a_cluster_of_no_nodes_is_answered():
    assert explain(gang(), ledger().columns).verdict is Verdict.NEVER


def test_nodes_that_failed_the_diagnosis_are_named():
    wanted = replace(gang(), failed_diagnosis=frozenset({"n-a"}))
    answer = explain(wanted, ledger(node("a")).columns)
    assert answer.verdict is Verdict.NEVER
    assert answer.summary.endswith("; a failed this job's diagnosis and is left out")
    assert explain(wanted, ledger(node("a"), node("b")).columns).verdict is Verdict.FITS


def test_a_node_that_the_last_attempt_failed_on_is_named():
    wanted = replace(gang(), suspected=frozenset({"n-a"}))
    answer = explain(wanted, ledger(node("a")).columns)
    assert answer.summary.endswith("; a failed under this job's last attempt and is left out")


@given(clusters, roles)
def test_every_gang_that_does_not_fit_has_a_reason_in_numbers(cluster, wanted):
    free, one = Ledger(cluster, POOLS).columns, gang(*wanted)
    answer = explain(one, free)
    if fit(one, free) is not None:
        assert answer.verdict is Verdict.FITS
        return
    assert answer.verdict is not Verdict.FITS
    assert answer.blockers
    assert all(blocker.detail and 0 <= blocker.available <= blocker.total for blocker in answer.blockers)


def test_a_gang_that_only_its_topology_keeps_away_is_told_what_the_best_domain_takes_whatever_else_is_taken():
    wanted = replace(gang(ask(2, cores=8)), topology=Topology(Level.LEAF, hard=True))
    labelled = [node(name, labels={"leaf": name}) for name in "ab"]
    for nodes, used, available, more in (
        ([node("a"), node("b")], {"a": 4}, 1, "no node has the label 'leaf', so each counts alone"),
        (labelled, {"a": 4}, 1, "the best has room for 1 of them now, and for 1 with nothing else running"),
        (labelled, {"a": 4, "b": 1}, 0, "the best has room for 0 of them now, and for 1 with nothing else running"),
    ):
        answer = explain(wanted, ledger(*nodes, used=used).columns)
        (blocker,) = answer.blockers
        assert answer.verdict is Verdict.NEVER
        assert (blocker.needed, blocker.available, blocker.total) == (2, available, 1)
        assert blocker.detail == (
            f"the 2 replicas would fit in the pool, but not in one leaf, which the job asks for; {more}"
        )


def test_a_gang_that_waits_for_one_domain_is_told_how_much_of_it_the_best_would_take_now():
    wanted = replace(gang(ask(2, cores=8)), topology=Topology(Level.LEAF, hard=True))
    nodes = [node(name, labels={"leaf": leaf}) for name, leaf in zip("abcd", "1122", strict=True)]
    answer = explain(wanted, ledger(*nodes, used={"a": 1, "c": 1}).columns)
    (blocker,) = answer.blockers
    assert answer.verdict is Verdict.WAITS
    assert (blocker.needed, blocker.available, blocker.total) == (2, 1, 2)
