"""Pods that come for GPUs, watched on an API server: tests on them end before the containers begin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.agent.kubernetes.allocations import Allocations
from services.agent.kubernetes.gpu_pods import GpuPods
from shared.clock import SystemClock
from shared.kubernetes.access import connect
from shared.tasks import end
from tests.support.kubernetes.clusters import Cluster, a_cluster

NODE = "node-1"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster("test server", tmp_path) as found:
        yield found


async def make(cluster: Cluster, name: str, node: str) -> None:
    limits = {"nvidia.com/gpu": "1"}
    container = {"name": "c", "image": "i", "resources": {"limits": limits, "requests": limits}}
    made = await cluster.api.post(
        cluster.path("pods"), {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}}
    )
    assert made.status == 201, made.message


async def until_refused(pods: GpuPods, why: str) -> None:
    async with asyncio.timeout(45):
        while pods.refusal(("GPU-a",)) != why:
            await pods.changed()


async def test_a_pod_of_anybody_that_wants_gpus_of_the_node_is_heard_of_and_one_of_another_node_is_not(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    pods = GpuPods(lambda: Allocations(offered=frozenset({"GPU-a"})), sees_gpus=True)
    async with await connect() as api:
        watching = asyncio.create_task(pods.watch(api, NODE, SystemClock()))
        try:
            await make(cluster, "elsewhere", "node-2")
            await until_refused(pods, "")
            await make(cluster, "here", NODE)
            await until_refused(pods, f"pod {cluster.namespace}/here may get any GPU of the node")
            await cluster.api.delete(cluster.path("pods", "here"), {"gracePeriodSeconds": 0})
            await until_refused(pods, "")
        finally:
            await end(watching)
