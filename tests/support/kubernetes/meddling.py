"""What people and controllers do to pods that are not theirs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.support.kubernetes.clusters import Cluster

Meddling = Callable[[Cluster, str], Awaitable[None]]


async def delete(cluster: Cluster, pod: str) -> None:
    """By hand, with its grace."""
    assert (await cluster.api.delete(cluster.path("pods", pod))).status == 200


async def delete_by_force(cluster: Cluster, pod: str) -> None:
    """By hand, without asking its node."""
    assert (await cluster.api.delete(cluster.path("pods", pod), {"gracePeriodSeconds": 0})).status == 200


async def evict(cluster: Cluster, pod: str) -> None:
    """As a node is drained."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    assert (await cluster.api.post(cluster.path("pods", pod, "eviction"), body)).status == 201
