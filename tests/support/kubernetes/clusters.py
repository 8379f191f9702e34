"""The clusters that tests of Kubernetes run against: the test server always, a real one where `KUBECONFIG` names it."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.kubernetes.connection import Connection, connected
from tests.support.kubernetes.server import ApiServer

NO_CLUSTER = "no cluster: set KUBECONFIG to the configuration of one whose namespaces may be created and deleted"
NO_NODE = "no node that runs pods: set TRAINMASTER_TEST_IMAGE to an image with bash and python3 that the cluster has"
READY_S = 90


@dataclass(frozen=True)
class Cluster:
    """An API server and a namespace of the test's own in it."""

    api: Connection
    kubeconfig: Path
    namespace: str
    server: ApiServer | None
    """The test server, where it is that."""

    def path(self, plural: str, name: str = "", sub: str = "", *, group: str = "") -> str:
        """Of an object or list in the namespace."""
        root = f"/apis/{group}" if group else "/api/v1"
        return "/".join(filter(None, (f"{root}/namespaces/{self.namespace}/{plural}", name, sub)))


def real_kubeconfig() -> Path | None:
    """What KUBECONFIG names, if anything."""
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(named) if named else None


def image_of_tests() -> str:
    """An image that the nodes of the real cluster can run; empty where it has no such nodes."""
    return os.environ.get("TRAINMASTER_TEST_IMAGE", "") if real_kubeconfig() else ""


def platform_image_of_tests() -> str:
    """The platform's own image, where the nodes of the real cluster have it."""
    return os.environ.get("TRAINMASTER_TEST_PLATFORM_IMAGE", "") if real_kubeconfig() else ""


def kinds_of_clusters() -> list[str]:
    """What tests that run on every cluster are parametrised with."""
    return ["test server", "cluster"] if real_kubeconfig() else ["test server"]


@asynccontextmanager
async def a_cluster(kind: str, directory: Path) -> AsyncIterator[Cluster]:
    """`test server`, or `cluster` for the real one; skips the test where there is none."""
    if kind == "test server":
        async with a_test_server(directory, _new_namespace()) as cluster:
            yield cluster
        return
    kubeconfig = real_kubeconfig()
    if kubeconfig is None:
        pytest.skip(NO_CLUSTER)
    async with namespaced(kubeconfig, None, _new_namespace()) as cluster:
        yield cluster


@asynccontextmanager
async def a_test_server(directory: Path, namespace: str) -> AsyncIterator[Cluster]:
    """One with this namespace; its kubeconfig is in the directory."""
    server = ApiServer(volcano=True)
    await server.start()
    try:
        async with namespaced(server.write_kubeconfig(directory / "kubeconfig"), server, namespace) as cluster:
            yield cluster
    finally:
        await server.stop()


def _new_namespace() -> str:
    return f"tm-test-{uuid.uuid4().hex[:8]}"


@asynccontextmanager
async def namespaced(kubeconfig: Path, server: ApiServer | None, name: str) -> AsyncIterator[Cluster]:
    """A cluster with a namespace that goes with the test."""
    async with connected(kubeconfig) as api:
        made = await api.post("/api/v1/namespaces", {"metadata": {"name": name}})
        assert made.status == 201, made.message
        try:
            await _service_account(api, name)
            yield Cluster(api, kubeconfig, name, server)
        finally:
            await api.delete(f"/api/v1/namespaces/{name}")


async def _service_account(api: Connection, namespace: str) -> None:
    """Pods are refused in a new namespace until the controller manager has made its default account."""
    async with asyncio.timeout(READY_S):
        while (await api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default")).status != 200:
            await asyncio.sleep(0.05)
