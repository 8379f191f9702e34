"""Two clusters, `main` and `east`: test servers, or real ones where a second kubeconfig is named."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.support.kubernetes.clusters import Cluster, a_test_server, namespaced, real_kubeconfig
from tests.support.kubernetes.server_process import NOT_OURS, ServerProcess, may_be_killed

NAMES = ("main", "east")
SECOND = "TRAINMASTER_TEST_SECOND_KUBECONFIG"
NO_SECOND = f"no two clusters: set KUBECONFIG to the configuration of one and {SECOND} to that of another"
READY_S = 60


def second_kubeconfig() -> Path | None:
    named = os.environ.get(SECOND, "")
    return Path(named) if named else None


def kinds_of_pairs() -> list[str]:
    """What tests that run on every pair are parametrised with."""
    return ["test servers", "clusters"] if real_kubeconfig() and second_kubeconfig() else ["test servers"]


@asynccontextmanager
async def a_pair(kind: str, directory: Path) -> AsyncIterator[dict[str, Cluster]]:
    """Clusters by name, with a namespace of one name in each."""
    kubeconfigs = dict(zip(NAMES, (real_kubeconfig(), second_kubeconfig()), strict=True))
    namespace = f"tm-test-{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        found = {}
        for name, kubeconfig in kubeconfigs.items():
            (directory / name).mkdir()
            if kind == "test servers":
                opening = a_test_server(directory / name, namespace)
            else:
                assert kubeconfig is not None, NO_SECOND
                opening = namespaced(kubeconfig, None, namespace)
            found[name] = await stack.enter_async_context(opening)
        yield found


def joined_kubeconfig(clusters: dict[str, Cluster], file: Path) -> Path:
    """One kubeconfig with a context for each, `at-<name>`."""
    joined: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": f"at-{NAMES[0]}"}
    joined |= {"clusters": [], "users": [], "contexts": []}
    for name, cluster in clusters.items():
        given = yaml.safe_load(cluster.kubeconfig.read_text())
        context = _named(given["contexts"], given["current-context"])["context"]
        joined["clusters"].append({**_named(given["clusters"], context["cluster"]), "name": name})
        joined["users"].append({**_named(given["users"], context["user"]), "name": name})
        joined["contexts"].append({"name": f"at-{name}", "context": {"cluster": name, "user": name}})
    file.write_text(yaml.safe_dump(joined))
    return file


@asynccontextmanager
async def away(cluster: Cluster) -> AsyncIterator[None]:
    """The cluster's API server is gone inside: a real one is killed; skips the test where it must not be."""
    if cluster.server is not None:
        async with cluster.server.away():
            yield
        return
    if not may_be_killed(cluster.kubeconfig):
        pytest.skip(NOT_OURS)
    server = ServerProcess(cluster.kubeconfig)
    server.kill()
    try:
        yield
    finally:
        server.start()
        await _ready(cluster)


async def _ready(cluster: Cluster) -> None:
    async with asyncio.timeout(READY_S):
        while not await _is_ready(cluster):
            await asyncio.sleep(0.1)


async def _is_ready(cluster: Cluster) -> bool:
    try:
        return (await cluster.api.get("/readyz")).status == 200
    except (aiohttp.ClientError, OSError):
        return False


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(each for each in entries if each["name"] == name)
