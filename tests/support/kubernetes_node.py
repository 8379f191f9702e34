"""A node of Kubernetes for a real agent: pods on an API server, their logs as a runtime and a kubelet keep them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shared.kubernetes import names
from tests.support.kubernetes.clusters import Cluster
from tests.support.kubernetes_logs import ContainerLog
from tests.support.logs import AgentProcess
from tests.support.services import eventually

NODE = "node-1"
CLUSTER = "main"
MACHINE = names.machine_name(CLUSTER, NODE)


@dataclass
class NodePod:
    """A replica's pod on the node, and the log of its container."""

    node: KubernetesNode
    name: str
    uid: str
    log: ContainerLog
    replica: Path

    @property
    def logs(self) -> Path:
        return self.log.directory.parent

    @property
    def is_shipped(self) -> bool:
        return (self.replica / "shipped.json").exists()

    async def runs(self, container: str = "containerd://abc") -> None:
        await self.status("Running", {"running": {"startedAt": "2026-01-02T00:00:00Z"}}, container)

    async def ends(self, code: int = 0) -> None:
        self.log.close()
        state = {"terminated": {"exitCode": code, "finishedAt": "2026-01-02T01:00:00Z"}}
        await self.status("Failed" if code else "Succeeded", state)

    async def status(self, phase: str, state: dict[str, Any], container: str = "", **more: Any) -> None:
        own = {"name": names.REPLICA_CONTAINER, "state": state, "containerID": container, "ready": False}
        full = {"restartCount": 0, "image": "i", "imageID": "i", **own}
        body = {"status": {"phase": phase, "containerStatuses": [full], **more}}
        answer = await self.node.cluster.api.patch(self.node.cluster.path("pods", self.name, "status"), body)
        assert answer.status == 200, answer.message

    async def is_deleted(self) -> None:
        body = {"gracePeriodSeconds": 0}
        answer = await self.node.cluster.api.delete(self.node.cluster.path("pods", self.name), body)
        assert answer.status in (200, 202), answer.message

    async def until_shipped(self, limit_s: float = 30) -> None:
        async def look() -> bool | None:
            return True if self.is_shipped else None

        await eventually(look, limit_s)


@dataclass
class KubernetesNode:
    """Directories of a node, and what an agent on it is told."""

    cluster: Cluster
    directory: Path

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def kubelet(self) -> Path:
        return self.directory / "kubelet"

    @property
    def cgroups(self) -> Path:
        return self.directory / "cgroup"

    @property
    def ready_file(self) -> Path:
        return self.directory / "ready"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "TRAINMASTER_AGENT_SOURCE": "kubernetes",
            "TRAINMASTER_NODE_NAME": NODE,
            "TRAINMASTER_KUBE_NAMESPACE": self.cluster.namespace,
            "TRAINMASTER_POD_LOGS": str(self.directory / "pods"),
            "TRAINMASTER_KUBELET_ROOT": str(self.kubelet),
            "TRAINMASTER_CGROUP_ROOT": str(self.cgroups),
            "TRAINMASTER_SAMPLE_S": "0.2",
            "TRAINMASTER_READY_FILE": str(self.ready_file),
            "KUBECONFIG": str(self.cluster.kubeconfig),
        }

    async def pod(
        self,
        job: str,
        index: int = 0,
        *,
        name: str = "",
        namespace: str = "",
        annotations: dict[str, str] | None = None,
        volumes: Any = (),
        mounts: Any = (),
    ) -> NodePod:
        """A replica's pod, bound to this node; under another name or in another namespace it only looks like one."""
        name = name or f"{job}-1-worker-{index}"
        cluster = replace(self.cluster, namespace=namespace or self.cluster.namespace)
        labels = {
            names.MANAGED_BY_LABEL: names.MANAGED_BY,
            names.CLUSTER_LABEL: CLUSTER,
            names.JOB_LABEL: job,
            names.ATTEMPT_LABEL: "1",
            names.ROLE_LABEL: "worker",
            names.INDEX_LABEL: str(index),
        }
        container = {"name": names.REPLICA_CONTAINER, "image": "i", "volumeMounts": list(mounts)}
        spec = {"nodeName": NODE, "restartPolicy": "Never", "containers": [container], "volumes": list(volumes)}
        metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
        made = await cluster.api.post(cluster.path("pods"), {"metadata": metadata, "spec": spec})
        assert made.status == 201, made.message
        uid = made.body["metadata"]["uid"]
        directory = self.directory / "pods" / f"{cluster.namespace}_{name}_{uid}" / names.REPLICA_CONTAINER
        replica = self.home / "gangs" / f"{job}-1" / "replicas" / f"worker-{index}"
        return NodePod(replace(self, cluster=cluster), name, uid, ContainerLog(directory), replica)


@asynccontextmanager
async def agent_on(node: KubernetesNode, nats_url: str) -> AsyncIterator[AgentProcess]:
    """A real agent on the node."""
    node.home.mkdir(parents=True, exist_ok=True)
    (node.directory / "pods").mkdir(exist_ok=True)
    agent = AgentProcess(node.home, nats_url, node.variables)
    await agent.start()
    try:
        yield agent
    finally:
        await agent.stop()
