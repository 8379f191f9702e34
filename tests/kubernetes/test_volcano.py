"""Gangs that Volcano's own scheduler places: whole, on nodes of the pool, or not at all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.scheduler.engines.kubernetes.objects.pod_group import API
from services.scheduler.ports.gangs import GangStart, PoolTerms
from tests.support.kubernetes.clusters import NO_CLUSTER, Cluster, a_cluster, real_kubeconfig
from tests.support.kubernetes.engines import (
    belongings,
    engine_on,
    gang_on,
    kubelets,
    node_name,
    pods_of,
    until_left,
)
from tests.support.local_engine import Bench

VOLCANO = "TRAINMASTER_TEST_VOLCANO"
NO_VOLCANO = f"{NO_CLUSTER}; and set {VOLCANO}=1 where Volcano's scheduler runs in it"
LABEL = "tests.trainmaster/of"
NODE_CPU_M = 64_000
HELD_S = 5
"""For how long a gang that has no room is looked at; Volcano decides every second."""

pytestmark = pytest.mark.skipif(not (real_kubeconfig() and os.environ.get(VOLCANO)), reason=NO_VOLCANO)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster("cluster", tmp_path) as made, kubelets(made, "a", "b", labels={LABEL: made.namespace}):
        yield made


def volcano_gang(cluster: Cluster, replicas: int, cpu_m: int) -> GangStart:
    gang = gang_on(cluster, "a", replicas=replicas, gang_scheduler="volcano")
    pool = PoolTerms(node_labels={LABEL: cluster.namespace})
    return replace(gang, replicas=tuple(replace(each, cpu_m=cpu_m, pool=pool) for each in gang.replicas))


async def removed(desk: Bench, gang: GangStart, cluster: Cluster, before) -> set[str]:
    """Causes of its ends, once nothing of it is left."""
    await desk.engine.stop(gang.id, 1)
    causes = {end.cause for end in await desk.exits(gang)}
    await desk.engine.forget(gang.id)
    await until_left(cluster, before)
    return causes


async def test_volcano_places_all_of_a_gang_on_nodes_of_its_pool(cluster: Cluster):
    before = await belongings(cluster)
    # Three to a node: Volcano has to use both, where every replica was planned for one.
    gang = volcano_gang(cluster, 6, NODE_CPU_M // 3)
    async with engine_on(cluster) as desk:
        await desk.engine.start(gang)
        await desk.started(gang)
        pods = await pods_of(cluster, gang)
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
        assert sorted(pod["spec"]["nodeName"] for pod in pods) == sorted(node_name(cluster, name) for name in "aaabbb")
        assert await removed(desk, gang, cluster, before) == {"stopped"}


async def test_volcano_places_nothing_of_a_gang_that_has_no_room_as_a_whole(cluster: Cluster):
    before = await belongings(cluster)
    gang = volcano_gang(cluster, 3, NODE_CPU_M * 2 // 3)
    async with engine_on(cluster) as desk:
        await desk.engine.start(gang)
        await asyncio.sleep(HELD_S)
        assert [pod["spec"].get("nodeName") for pod in await pods_of(cluster, gang)] == [None] * 3
        assert desk.starts(gang) == 0
        group = await cluster.api.get(cluster.path("podgroups", gang.id, group=API))
        assert group.body["status"]["phase"] in {"Pending", "Inqueue"}, "Volcano has not looked at it"
        told = desk.engine.holdups(gang.id)
        assert len(told) == len(gang.replicas)
        assert all(" no node for it yet" in why or why.startswith("no node can take it (") for why in told.values())
        assert await removed(desk, gang, cluster, before) == {"never-started"}
