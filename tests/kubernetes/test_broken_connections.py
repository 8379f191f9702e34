"""Connections to an API server that break, of the test server and a real one: nothing is missed, nothing told twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.scheduler.engines.kubernetes.api import Patience
from services.scheduler.ports.gangs import GangStart
from services.scheduler.ports.reports import ReplicaExited
from shared.errors import UnavailableError
from tests.support.kubernetes.clusters import Cluster, a_cluster, kinds_of_clusters
from tests.support.kubernetes.engines import (
    belongings,
    engine_on,
    gang_on,
    insist,
    kubelets,
    pods_of,
    settings_for,
    until_left,
)
from tests.support.kubernetes.proxy import PODS, Proxy, proxied
from tests.support.local_engine import Bench

SHORT = Patience(0.3, 0.05)
HALF = 20


@pytest.fixture(params=kinds_of_clusters())
async def cluster(request, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster(request.param, tmp_path) as made:
        yield made


@pytest.fixture
async def far(cluster: Cluster, tmp_path: Path) -> AsyncIterator[tuple[Cluster, Proxy]]:
    """The cluster through a proxy that can be cut."""
    async with proxied(cluster, tmp_path) as found:
        yield found


async def ended(desk: Bench, gang: GangStart) -> None:
    await desk.engine.stop(gang.id, 1)
    await desk.exits(gang)
    await desk.engine.forget(gang.id)


@pytest.mark.parametrize("large", [1, 100])
async def test_watches_that_are_cut_in_mid_event_miss_nothing_and_tell_nothing_twice(
    far: tuple[Cluster, Proxy], large: int
):
    cluster, proxy = far
    before = await belongings(cluster)
    gangs = [gang_on(cluster, "a", replicas=4) for _ in range(3)]
    async with kubelets(cluster, "a"), engine_on(cluster, settings_for(cluster, large=large)) as desk:
        await desk.until_caught_up()
        for gang in gangs:
            proxy.cut_watches()
            await desk.engine.start(gang)
            await desk.started(gang)
        proxy.cut_watches()
        for gang in gangs:
            await ended(desk, gang)
            assert {end.cause for end in await desk.exits(gang)} == {"stopped"}
            assert desk.starts(gang) == len(gang.replicas)
        await until_left(cluster, before)
    assert proxy.cut
    assert sum(isinstance(each, ReplicaExited) for each in desk.seen) == sum(len(gang.replicas) for gang in gangs)


async def test_a_server_out_of_reach_while_one_gang_runs_and_another_is_made_ends_neither(far: tuple[Cluster, Proxy]):
    cluster, proxy = far
    before = await belongings(cluster)
    running, starting = gang_on(cluster, "a"), gang_on(cluster, "a", replicas=2 * HALF)
    async with kubelets(cluster, "a"), engine_on(cluster, settings_for(cluster, patience=SHORT)) as desk:
        await desk.engine.start(running)
        await desk.started(running)
        proxy.hold(PODS, after=HALF)
        start = asyncio.create_task(insist(desk, starting))
        await until_made(cluster, starting, HALF)
        async with proxy.away():
            with pytest.raises(UnavailableError):
                await desk.engine.stop(running.id, 1)
            made = {pod["metadata"]["uid"] for pod in await pods_of(cluster, starting)}
            assert len(made) == HALF
            assert {pod["status"]["phase"] for pod in await pods_of(cluster, starting)} == {"Pending"}
        await start
        await desk.started(starting)
        assert made <= {pod["metadata"]["uid"] for pod in await pods_of(cluster, starting)}
        assert (desk.starts(running), desk.starts(starting)) == (len(running.replicas), len(starting.replicas))
        assert not any(isinstance(each, ReplicaExited) for each in desk.seen)
        for gang in (running, starting):
            await ended(desk, gang)
        await until_left(cluster, before)


async def until_made(cluster: Cluster, gang: GangStart, pods: int) -> None:
    async with asyncio.timeout(30):
        while len(await pods_of(cluster, gang)) < pods:
            await asyncio.sleep(0.02)
