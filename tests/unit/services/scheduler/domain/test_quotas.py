"""What quotas of projects hold back, and what is told of it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.domain.gang import QueuePolicy
from services.scheduler.domain.planning.usage import Usage
from services.scheduler.domain.quotas import Quota, Use, is_beyond_quota, quota_blockers, use_of
from tests.support.cluster import POOLS, PUBLIC, ask, clusters, columns, gang, node, planned, roles

A_NODE = (node("a", cores=64, gpus=8),)


def of(project: str, *asked, job: str = "tj-a", sequence: int = 1):
    return replace(gang(*asked, job=job, sequence=sequence), project=project)


def held(project: str, *roles) -> Usage:
    usage = Usage()
    usage.add(project, "u-ada", roles)
    return usage


def started(*gangs, pool=PUBLIC, **snapshot) -> list[str]:
    return [start.gang.job for start in planned(gangs, columns(A_NODE, (pool,)), **snapshot).starts]


def test_gangs_start_up_to_the_quota_of_their_project_with_what_it_holds_counted():
    gangs = [of("vision", ask(2), job=str(number), sequence=number) for number in range(4)]
    quotas = {"vision": Quota(replicas=7)}
    assert started(*gangs, quotas=quotas) == ["0", "1", "2"]
    assert started(*gangs, quotas=quotas, usage=held("vision", ask(4))) == ["0"]
    assert started(*gangs, quotas={"speech": Quota(replicas=0)}) == ["0", "1", "2", "3"]


def test_gpus_are_counted_apart_and_work_without_them_goes_on():
    with_gpus, without = of("vision", ask(2, gpus=2), job="gpu"), of("vision", ask(2), job="cpu", sequence=2)
    assert started(with_gpus, without, quotas={"vision": Quota(gpus=3)}) == ["cpu"]


def test_a_gang_held_back_by_its_quota_blocks_nobody_in_a_fifo_pool():
    fifo = replace(PUBLIC, policy=QueuePolicy.FIFO)
    held, other = of("vision", ask(2), job="held"), of("speech", ask(1), job="other", sequence=2)
    assert started(held, other, pool=fifo, quotas={"vision": Quota(replicas=1)}) == ["other"]


def test_it_is_told_in_numbers_and_what_can_never_start_is_told_apart():
    quotas, used = {"vision": Quota(replicas=8, gpus=4)}, {"vision": Use(6, 3)}
    blockers = quota_blockers(of("vision", ask(4, gpus=1)), quotas, used)
    assert [(each.resource, each.needed, each.available, each.total) for each in blockers] == [
        ("quota-replicas", 4, 2, 8),
        ("quota-gpus", 4, 1, 4),
    ]
    assert "may have 8 running replicas; its jobs have 6, and this one needs 4" in blockers[0].detail
    assert not is_beyond_quota(blockers)
    assert is_beyond_quota(quota_blockers(of("vision", ask(9)), quotas, {}))


@given(
    st.lists(st.tuples(roles, st.sampled_from(["vision", "speech"])), max_size=6),
    clusters,
    st.integers(0, 8),
    st.integers(0, 4),
)
def test_no_plan_goes_over_a_quota(asked, cluster, replicas, gpus):
    gangs = tuple(of(project, *wanted, job=str(n), sequence=n) for n, (wanted, project) in enumerate(asked))
    quotas = {"vision": Quota(replicas, gpus)}
    starts = planned(gangs, columns(cluster, POOLS), quotas=quotas).starts
    total = sum((use_of(start.gang.roles) for start in starts if start.gang.project == "vision"), Use())
    assert total.replicas <= replicas
    assert total.gpus <= gpus
