"""Why a gang waits, in numbers, and what would start it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from services.scheduler.domain.explain import Verdict, explain
from services.scheduler.domain.gang import Pool
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
    assert answer.suggestions == ("2 instead of 5 replicas of role worker would start it now",)


def test_fewer_replicas_that_would_start_now_are_suggested():
    free = ledger(node("a", cores=8), node("b", cores=8), used={"a": 8}).columns
    answer = explain(gang(ask(4, cores=4)), free)
    assert answer.suggestions == ("2 instead of 4 replicas of role worker would start it now",)


def test_what_would_fit_later_is_suggested_where_nothing_helps_now():
    free = ledger(node("a", cores=8), used={"a": 8}).columns
    answer = explain(gang(ask(2, cores=8)), free)
    assert answer.verdict is Verdict.NEVER
    assert answer.suggestions == (
        "1 instead of 2 replicas of role worker would make it fit once other jobs have ended",
    )


def test_gpus_are_counted_by_model():
    free = ledger(node("a", gpus=2), node("b", gpus=1, model="H100")).columns
    (blocker,) = explain(gang(ask(2, gpus=1, model="H100")), free).blockers
    assert (blocker.resource, blocker.needed, blocker.available, blocker.total) == ("gpu", 2, 1, 1)
    assert "2 x 1 GPU H100" in blocker.detail


def test_enough_of_everything_but_on_no_node_together_is_told_as_replicas():
    free = ledger(node("a", cores=8, memory_gib=1), node("b", cores=1, memory_gib=8)).columns
    (blocker,) = explain(gang(ask(1, cores=4, memory_gib=4)), free).blockers
    assert (blocker.resource, blocker.needed, blocker.available) == ("replicas", 1, 0)
    assert "no node has it together" in blocker.detail


def test_roles_that_fit_alone_but_not_together_are_told_so():
    free = ledger(node("a", cores=4)).columns
    (blocker,) = explain(gang(ask(1, "ps", cores=3), ask(1, cores=3)), free).blockers
    assert blocker.role == "ps, worker"
    assert "do not fit together" in blocker.detail


def test_a_pool_without_usable_nodes_is_told_so():
    free = ledger(node("a", state=NodeState.DRAINING)).columns
    (blocker,) = explain(gang(), free).blockers
    assert (blocker.resource, blocker.available) == ("nodes", 0)


def test_a_pool_that_is_gone_is_told_so():
    (blocker,) = explain(gang(ask(pool="gone")), ledger(node("a")).columns).blockers
    assert blocker.detail == "there is no pool 'gone' for role worker"


def test_a_cluster_of_no_nodes_is_answered():
    assert explain(gang(), ledger().columns).verdict is Verdict.NEVER


def test_another_pool_is_suggested_only_where_the_asker_may_use_it():
    pools = {"public": Pool("public", "main", node_names=frozenset({"a"})), "team": Pool("team", "main")}
    free = ledger(node("a", cores=1), node("b", cores=8), pools=pools).columns
    wanted = gang(ask(1, cores=4))
    assert explain(wanted, free).suggestions == ()
    allowed = explain(wanted, free, {"worker": ["team"]}).suggestions
    assert allowed == ("pool 'team' instead of 'public' for role worker would start it now",)


def test_an_exclusion_that_is_in_the_way_is_suggested_to_go():
    answer = explain(gang(excluded=("a",)), ledger(node("a")).columns)
    assert answer.suggestions == ("an empty excludeNodes would start it now",)


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


@given(clusters, roles)
def test_a_suggested_number_of_replicas_does_fit_and_one_more_does_not(cluster, wanted):
    free, one = Ledger(cluster, POOLS).columns, gang(*wanted)
    answer = explain(one, free)
    if len(wanted) > 1:
        return
    for suggestion in (text for text in answer.suggestions if text.endswith("now")):
        most = int(suggestion.split()[0])
        role = one.roles[0]
        assert fit(replace(one, roles=(replace(role, replicas=most),)), free) is not None
        assert fit(replace(one, roles=(replace(role, replicas=most + 1),)), free) is None
