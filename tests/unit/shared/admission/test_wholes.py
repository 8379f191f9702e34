"""Gangs that can never fit as a whole are refused with what would."""

from __future__ import annotations

from shared.admission.wholes import Sized, whole_violations
from shared.catalog import Cluster
from shared.errors import Violation
from tests.support.jobs import role

GIB = 1 << 30


def cluster(
    *nodes: int, domains: tuple[dict[str, object], ...] = (), gpus: int = 0, pods: int | None = None
) -> Cluster:
    """A shape of eight cores for each number of nodes."""
    shapes = [
        {
            "pools": ["public"],
            "nodes": count,
            "cpuMillis": 8000 << number,
            "memoryBytes": 64 * GIB,
            "gpus": {"A100": gpus} if gpus else {},
            **({} if pods is None else {"pods": pods}),
        }
        for number, count in enumerate(nodes)
    ]
    document = {"apiVersion": "trainmaster/v1", "kind": "Cluster", "metadata": {"name": "main"}}
    return Cluster.model_validate({**document, "spec": {"shapes": shapes, "domains": list(domains)}})


def leaf(**nodes: int) -> dict[str, object]:
    return {"level": "leaf", "nodes": {number.removeprefix("n"): count for number, count in nodes.items()}}


def judged(*roles: Sized, there: Cluster, hard: str | None = None) -> list[Violation]:
    return list(whole_violations(roles, hard, there))


def test_roles_that_together_ask_for_more_than_their_pool_has_are_refused_with_what_would_fit_in_proportion():
    two = Sized(role("ps"), 4), Sized(role("worker", cpu_millis=2000), 8)
    assert judged(*two, there=cluster(3)) == []
    (refused,) = judged(*two, there=cluster(2))
    assert (refused.pointer, refused.code) == ("/spec/roles", "never-fits")
    assert refused.message == (
        "together the roles in pool 'public' need 20 cores, 12Gi of memory, and all of its nodes have 16 cores, "
        "128Gi of memory, with nothing else running there; in this proportion give at most 3 of 'ps', 6 of 'worker'"
    )


def test_roles_of_few_replicas_are_told_what_else_would_do():
    (refused,) = judged(Sized(role("a", cpu_millis=6000), 1), Sized(role("b", cpu_millis=6000), 1), there=cluster(1))
    assert refused.message.endswith("; give smaller instance types, or some of the roles another pool")


def test_gpus_are_added_up_over_roles():
    two = Sized(role("a", gpu_count=2), 2), Sized(role("b", gpu_count=1), 1)
    assert judged(*two, there=cluster(1, gpus=5)) == []
    assert judged(*two, there=cluster(1, gpus=4))


def test_pods_of_nodes_are_added_up_where_they_are_limited():
    two = Sized(role("a"), 4), Sized(role("b"), 3)
    assert judged(*two, there=cluster(1, pods=7)) == []
    (refused,) = judged(*two, there=cluster(1, pods=6))
    assert "need 7 cores, 7Gi of memory, 7 pods, and all of its nodes have 8 cores, 64Gi of memory, 6 pods," in (
        refused.message
    )


def test_roles_of_different_pools_and_pools_of_which_nothing_is_said_are_not_added_up():
    apart = Sized(role("a"), 8), Sized(role("b", pool_name="team"), 8)
    assert judged(*apart, there=cluster(1)) == []
    assert judged(Sized(role("a"), 80), Sized(role("b"), 80), there=cluster()) == []


def test_a_gang_that_no_leaf_holds_is_refused_with_the_most_that_one_would():
    leaves = cluster(4, 1, domains=(leaf(n0=1), leaf(n1=1), leaf(n0=2)))
    assert judged(Sized(role(), 16), there=leaves, hard="leaf") == []
    assert judged(Sized(role(), 17), there=leaves) == []
    (refused,) = judged(Sized(role(), 17), there=leaves, hard="leaf")
    assert (refused.pointer, refused.code) == ("/spec/topology", "never-fits")
    assert refused.message == (
        "no leaf holds all 17 replicas, with nothing else running there; give at most 16, or topology.mode soft"
    )


def test_each_role_must_find_room_in_one_and_the_same_domain():
    two = Sized(role("a"), 20), Sized(role("b", cpu_millis=16_000), 1)
    assert judged(*two, there=cluster(3, 1, domains=(leaf(n0=1), leaf(n0=1, n1=1))), hard="leaf") == []
    (refused,) = judged(*two, there=cluster(3, 1, domains=(leaf(n0=3), leaf(n1=1))), hard="leaf")
    assert refused.message.endswith("; give topology.mode soft, or fewer replicas than one leaf holds")


def test_where_nothing_is_said_of_domains_nothing_is_refused():
    assert judged(Sized(role(), 17), there=cluster(4), hard="leaf") == []
