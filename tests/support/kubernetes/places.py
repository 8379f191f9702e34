"""Where pods of tests really run: as processes on a simulated node, or on a node of the real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kubernetes.clusters import Cluster, a_cluster, image_of_tests
from tests.support.kubernetes.kubelet import SimulatedKubelet
from tests.support.kubernetes.nodes import NodeSpec
from tests.support.kubernetes.objects import bind, made, pod
from tests.support.kubernetes.processes import ProcessRunner
from tests.support.kubernetes.resources import Json

NODE = "process-node"
IMAGE = image_of_tests() or "registry.example/none:1"


def kinds_of_places() -> list[str]:
    """What tests that run pods are parametrised with."""
    return ["processes", "real node"] if image_of_tests() else ["processes"]


@asynccontextmanager
async def a_place(kind: str, directory: Path) -> AsyncIterator[Place]:
    """The one or the other."""
    async with (_processes if kind == "processes" else _real_node)(directory) as place:
        yield place


@dataclass
class Place:
    """A cluster and one node of it that runs pods."""

    cluster: Cluster
    node: str

    async def start(self, name: str, script: str, **spec: Any) -> None:
        """A pod that runs the script."""
        more = spec.pop("container", {})
        main = {"name": "main", "image": IMAGE, "command": ["/bin/bash", "-c", script], **more}
        body = pod(name, automountServiceAccountToken=False, containers=[main], **spec)
        body["metadata"]["labels"] = {"a": name}
        await made(self.cluster, "pods", body)
        assert (await bind(self.cluster, name, self.node)).status == 201

    async def status(self, name: str, *phases: str) -> Json:
        async with asyncio.timeout(90):
            while True:
                status: Json = (await self.cluster.api.get(self.cluster.path("pods", name))).body.get("status", {})
                if status.get("phase") in phases:
                    return status
                await asyncio.sleep(0.05)

    async def ended(self, name: str) -> Json:
        """How its container ended."""
        status = await self.status(name, "Succeeded", "Failed")
        return _end_of(status)

    async def log(self, name: str) -> str:
        return str((await self.cluster.api.get(self.cluster.path("pods", name, "log"))).body["text"])

    async def says(self, name: str, text: str) -> None:
        """Wait until it has said so."""
        async with asyncio.timeout(90):
            while text not in str((await self.cluster.api.get(self.cluster.path("pods", name, "log"))).body):
                await asyncio.sleep(0.05)

    async def end_of(self, name: str, grace_s: int) -> Json:
        """Delete it; how its container ended then."""
        path = self.cluster.path("pods")
        listed = (await self.cluster.api.get(path)).body["metadata"]["resourceVersion"]
        query = {"fieldSelector": f"metadata.name={name}", "resourceVersion": listed}
        await self.cluster.api.delete(self.cluster.path("pods", name), {"gracePeriodSeconds": grace_s})
        last: Json = {}
        async with asyncio.timeout(90):
            async for event in self.cluster.api.watch(path, **query):
                last = event["object"]
                if event["type"] == "DELETED":
                    break
        return _end_of(last["status"])


def _end_of(status: Json) -> Json:
    end: Json = status["containerStatuses"][0]["state"]["terminated"]
    return end


@asynccontextmanager
async def _processes(tmp_path: Path) -> AsyncIterator[Place]:
    async with a_cluster("test server", tmp_path) as cluster:
        runner = ProcessRunner(cluster.api, tmp_path / "node")
        assert cluster.server is not None
        cluster.server.api.logs = runner.read_logs
        async with SimulatedKubelet(cluster.api, [NodeSpec(NODE)], runner=runner):
            yield Place(cluster, NODE)


@asynccontextmanager
async def _real_node(tmp_path: Path) -> AsyncIterator[Place]:
    async with a_cluster("cluster", tmp_path) as cluster:
        nodes = (await cluster.api.get("/api/v1/nodes")).body["items"]
        yield Place(cluster, nodes[0]["metadata"]["name"])
