"""Jobs on a test's cluster, in a pool of the test's own nodes: submitted into the stream, followed to their end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from nats.aio.msg import Msg

from shared import events as ev
from shared.agent_wire import Shipped, decode_shipped_request, encode_shipped
from shared.bus import Bus
from shared.catalog import CatalogStore, Pool
from shared.jobs import Attempt, JobState
from shared.kubernetes.names import JOB_LABEL
from tests.support.kubernetes.clusters import Cluster
from tests.support.kubernetes.engines import kubelets
from tests.support.kubernetes.kubelet import SimulatedKubelet
from tests.support.kubernetes.resources import Json
from tests.support.kubernetes.scripts import PodScript, annotated
from tests.support.nats import registered
from tests.support.scheduling import Rig
from tests.support.services import eventually

IMAGE = ev.ResolvedImage(source="address", address="registry.example/train:1")
POOL = "mine"
LABEL = "tests.trainmaster/of"
OVER_S = 60


@dataclass
class JobDesk:
    """Where a test hands in jobs."""

    rig: Rig
    cluster: Cluster
    kubelet: SimulatedKubelet

    @property
    def settings(self) -> dict[str, Any]:
        """Of a scheduler whose gangs are in the test's namespace."""
        return {"engine": "kubernetes", "kube_namespace": self.cluster.namespace}

    async def submit(self, replicas: int = 2, *, cpu_millis: int = 50) -> str:
        resolved = {"pool_name": POOL, "cpu_millis": cpu_millis}
        return await self.rig.submit(replicas=replicas, resolved_image=IMAGE, resolved=resolved)

    async def running(self, replicas: int = 2, *, cpu_millis: int = 50) -> str:
        job = await self.submit(replicas, cpu_millis=cpu_millis)
        await self.rig.until(job, JobState.RUNNING, limit_s=OVER_S)
        return job

    async def over(self, job: str) -> Attempt:
        """Its first attempt, which has ended."""

        async def look() -> Attempt | None:
            first = (await self.rig.job(job)).attempts[0]
            return first if first.ended else None

        return await eventually(look, OVER_S)

    async def pods(self, job: str) -> list[Json]:
        answer = await self.cluster.api.get(self.cluster.path("pods"), labelSelector=f"{JOB_LABEL}={job}")
        items: list[Json] = answer.body["items"]
        return items


@asynccontextmanager
async def job_desk(
    rig: Rig, cluster: Cluster, *nodes: str, script: Callable[[Json], PodScript] = annotated
) -> AsyncIterator[JobDesk]:
    """Nodes of the test's own, and agents of theirs that have shipped everything."""
    spec = {"type": "dedicated", "nodes": {"labels": {LABEL: cluster.namespace}}}
    pool = {"apiVersion": "trainmaster/v1", "kind": "Pool", "metadata": {"name": POOL}, "spec": spec}
    await CatalogStore(rig.bus).put(Pool.model_validate(pool), expected=0)
    labels = {LABEL: cluster.namespace}
    async with all_is_shipped(rig.bus), kubelets(cluster, *nodes, script=script, labels=labels) as kubelet:
        yield JobDesk(rig, cluster, kubelet)


@asynccontextmanager
async def all_is_shipped(bus: Bus) -> AsyncIterator[None]:
    """Agents of whatever machine have kept all that gangs wrote."""

    async def answer(asked: Msg) -> None:
        await asked.respond(encode_shipped(Shipped(decode_shipped_request(asked.data))))

    subscription = await bus.client.subscribe("tm.agent.*.shipped", cb=answer)
    await registered(bus.client)
    try:
        yield
    finally:
        await subscription.unsubscribe()
