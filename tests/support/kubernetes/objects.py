"""Small objects for tests of an API server, and what is often done with them."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.kubernetes.clusters import Cluster
from tests.support.kubernetes.connection import Answer
from tests.support.kubernetes.resources import Json

NOBODY = "nobody"
"""Name of a scheduler that there is none of: a cluster's own is to leave pods of tests alone."""


def pod(name: str, **spec: Any) -> Json:
    container = {"name": "main", "image": "registry.example/none:1"}
    usual = {"containers": [container], "restartPolicy": "Never", "schedulerName": NOBODY}
    return {"metadata": {"name": name}, "spec": usual | spec}


def config_map(name: str, **metadata: Any) -> Json:
    return {"metadata": {"name": name, **metadata}, "data": {"key": "value"}}


async def made(cluster: Cluster, plural: str, body: Json, *, group: str = "") -> Json:
    answer = await cluster.api.post(cluster.path(plural, group=group), body)
    assert answer.status == 201, answer.message
    return answer.body


async def bound(cluster: Cluster, name: str, **spec: Any) -> Json:
    await made(cluster, "pods", pod(name, **spec))
    answer = await bind(cluster, name, "node-a")
    assert answer.status == 201, answer.message
    return (await cluster.api.get(cluster.path("pods", name))).body


async def bind(cluster: Cluster, name: str, node: str, **metadata: str) -> Answer:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}
    return await cluster.api.post(cluster.path("pods", name, "binding"), body)


async def gone(cluster: Cluster, plural: str, name: str) -> None:
    async with asyncio.timeout(30):
        while (await cluster.api.get(cluster.path(plural, name))).status != 404:
            await asyncio.sleep(0.05)
