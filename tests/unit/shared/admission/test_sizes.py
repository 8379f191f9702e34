"""Sizes that can never fit are refused with the largest that would."""

from __future__ import annotations

import pytest

from shared.admission.sizes import size_violations
from shared.catalog import Cluster
from shared.errors import Violation
from tests.support.jobs import role

GIB = 1 << 30


def shape(nodes: int = 2, cores: int = 8, memory_gib: int = 32, pools=("public",), **gpus: int) -> dict:
    return {
        "pools": list(pools),
        "nodes": nodes,
        "cpuMillis": cores * 1000,
        "memoryBytes": memory_gib * GIB,
        "gpus": gpus,
    }


def judged(replicas: int, *shapes: dict, **wanted) -> list[Violation]:
    document = {
        "apiVersion": "trainmaster/v1",
        "kind": "Cluster",
        "metadata": {"name": "main"},
        "spec": {"shapes": list(shapes)},
    }
    return list(size_violations(0, role(**wanted), replicas, Cluster.model_validate(document)))


def test_as_many_as_fit_on_empty_nodes_are_taken_and_one_more_is_refused_with_that_number():
    assert judged(16, shape()) == []
    (refused,) = judged(17, shape())
    assert (refused.pointer, refused.code) == ("/spec/roles/0/replicas", "never-fits")
    assert refused.message == (
        "pool 'public' holds at most 16 replicas of cpu-small, with nothing else running there; give at most 16"
    )


def test_a_replica_that_is_larger_than_any_node_is_refused_with_the_largest_there_is():
    (refused,) = judged(1, shape(cores=8), shape(cores=16, memory_gib=8), cpu_millis=20_000)
    assert refused.pointer == "/spec/roles/0/instanceType"
    assert refused.message.endswith(
        "is as large as a replica of cpu-small (20 cores, 1Gi of memory); the largest has 16 cores, 8Gi of memory"
    )


def test_a_node_takes_no_more_pods_than_it_says_whatever_their_size():
    (refused,) = judged(11, {**shape(), "pods": 5})
    assert refused.message.endswith("; give at most 10")


@pytest.mark.parametrize(("model", "most"), [("A100", 8), ("H100", 4), (None, 12), ("B200", 0)])
def test_gpus_count_by_their_model(model: str | None, most: int):
    mixed = shape(2, 64, 256, A100=4, H100=2)
    wanted = {"gpu_count": 1, "gpu_model": model}
    assert bool(judged(max(most, 1), mixed, **wanted)) is (most == 0)
    assert judged(most + 1, mixed, **wanted)


def test_other_pools_do_not_count_and_a_pool_of_which_nothing_is_said_is_not_judged():
    assert judged(17, shape(), shape(pools=("team",)))
    assert judged(1000, shape(pools=("team",))) == []
    assert judged(1000) == []
