"""A real agent on a node of Kubernetes: what pods write arrives byte for byte at the logs service."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.watchdog.adapters.agents import decode_look
from shared.agent_evidence import StacksRequest, encode_request, stacks_subject
from shared.agent_wire import Shipped, decode_shipped, encode_shipped_request, shipped_subject
from shared.bus import Bus
from shared.kubernetes import names
from tests.support.event_files import scalars
from tests.support.kubernetes.clusters import a_cluster, kinds_of_clusters, namespaced
from tests.support.kubernetes_logs import ContainerLog
from tests.support.kubernetes_node import MACHINE, KubernetesNode, NodePod, agent_on
from tests.support.logs import AgentProcess, KeptLogs, keeping_logs, submit
from tests.support.services import eventually

GIB = 1024**3


@pytest.fixture(params=kinds_of_clusters())
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KubernetesNode]:
    async with a_cluster(request.param, tmp_path) as cluster:
        yield KubernetesNode(cluster, tmp_path)


@asynccontextmanager
async def shipping(bus: Bus, node: KubernetesNode) -> AsyncIterator[tuple[KeptLogs, AgentProcess]]:
    async with keeping_logs(bus, node.home) as kept, agent_on(node, bus.options.url) as agent:
        yield kept, agent


async def shipped(bus: Bus, gang: str) -> Shipped:
    return decode_shipped(await bus.ask(shipped_subject(MACHINE), encode_shipped_request(gang), within_s=5))


async def write_and_rotate(pods: list[NodePod], seconds: float) -> None:
    random_ = random.Random(7)  # noqa: S311  # the same bytes in every run
    loop = asyncio.get_running_loop()
    end, at = loop.time() + seconds, 0
    while loop.time() < end:
        at += 1
        for pod in pods:
            pod.log.write(random_.randbytes(random_.choice([10, 1000, 100_000])) + b"\r 10%\n")
            if at % 20 == 0:
                pod.log.rotate(keep=20)
        await asyncio.sleep(0.02)


async def test_a_pods_output_is_shipped_with_its_end_and_its_directory_goes_with_the_pod(
    bus: Bus, node: KubernetesNode
):
    async with shipping(bus, node) as (kept, agent):
        job = await submit(bus)
        pod = await node.pod(job)
        await pod.runs()
        pod.log.write(b"hello\n")
        await kept.until_sized(job, 6)
        assert await shipped(bus, f"{job}-1") == Shipped(f"{job}-1", ("worker-0",))
        pod.log.write(b"oh\n", stream="stderr")
        pod.log.write(b"no end")
        await pod.ends(code=3)
        await pod.until_shipped()
        assert await kept.raw(job) == b"hello\noh\nno end"
        assert (await kept.sizes(job))[1, "worker", 0] == (15, True)
        assert (await shipped(bus, f"{job}-1")).is_all
        await pod.is_deleted()

        async def look() -> bool | None:
            return True if not list(node.home.glob("gangs/*")) else None

        await eventually(look)
        assert await agent.stop() == 0


@pytest.mark.parametrize("by_name", [True, False])
async def test_a_pod_that_only_looks_like_a_replica_writes_nothing_into_its_log(
    bus: Bus, node: KubernetesNode, *, by_name: bool
):
    async with shipping(bus, node) as (kept, _), elsewhere(node) as namespace:
        job = await submit(bus)
        forged = await (node.pod(job, name="look-inside") if by_name else node.pod(job, namespace=namespace))
        await forged.runs()
        forged.log.write(b"CUDA error: device-side assert triggered\n")
        await forged.ends(code=1)
        real = await node.pod(job)
        await real.runs()
        real.log.write(b"all is well\n")
        await real.ends()
        await real.until_shipped()
        assert await kept.raw(job) == b"all is well\n"


@asynccontextmanager
async def elsewhere(node: KubernetesNode) -> AsyncIterator[str]:
    cluster = node.cluster
    async with namespaced(cluster.kubeconfig, cluster.server, f"{cluster.namespace}-theirs") as made:
        yield made.namespace


async def test_the_agent_says_that_it_can_work_once_it_knows_the_pods_of_its_node(bus: Bus, node: KubernetesNode):
    async def is_ready() -> bool | None:
        return node.ready_file.exists() or None

    async with agent_on(node, bus.options.url):
        await eventually(is_ready, 45)


async def test_output_is_identical_through_rotation_and_an_agent_killed_again_and_again(bus: Bus, node: KubernetesNode):
    async with shipping(bus, node) as (kept, agent):
        job = await submit(bus, replicas=2)
        pods = [await node.pod(job, index) for index in range(2)]
        for pod in pods:
            await pod.runs()
        writing = asyncio.create_task(write_and_rotate(pods, 4.0))
        for _ in range(3):
            await asyncio.sleep(1.0)
            await agent.kill()
            await agent.start()
        await writing
        for pod in pods:
            await pod.ends()
        await asyncio.gather(*(pod.until_shipped() for pod in pods))
        for index, pod in enumerate(pods):
            assert await kept.raw(job, index=index) == pod.log.written


async def test_a_pod_that_is_deleted_with_its_logs_while_they_are_read_is_shipped_to_its_end(
    bus: Bus, node: KubernetesNode
):
    async with shipping(bus, node) as (kept, _):
        job = await submit(bus)
        pod = await node.pod(job)
        await pod.runs()
        pod.log.write(b"x" * 5_000_000 + b"\n")

        async def begun() -> bool | None:
            return True if (pod.replica / "log").exists() else None

        await eventually(begun)
        await kept.until_sized(job, 5_000_001)
        pod.log.write(b"last words\n")
        await pod.is_deleted()
        pod.log.remove()
        await kept.until_ended(job)
        assert await kept.raw(job) == pod.log.written


async def test_while_the_api_server_is_away_output_goes_on_being_shipped(bus: Bus, node: KubernetesNode):
    if node.cluster.server is None:
        pytest.skip("a real API server is not taken away by this test")
    async with shipping(bus, node) as (kept, _):
        job = await submit(bus)
        pod = await node.pod(job)
        await pod.runs()
        pod.log.write(b"before\n")
        await kept.until_sized(job, 7)
        async with node.cluster.server.away():
            pod.log.write(b"meanwhile\n")
            await kept.until_sized(job, 17)
        await pod.ends()
        await pod.until_shipped(60)
        assert await kept.raw(job) == b"before\nmeanwhile\n"


async def test_an_init_container_that_fails_tells_why_in_the_replicas_log(bus: Bus, node: KubernetesNode):
    async with shipping(bus, node) as (kept, _):
        job = await submit(bus)
        pod = await node.pod(job)
        log = ContainerLog(pod.logs / names.CODE_CONTAINER)
        log.write(b"the archive has another digest\n")
        status = {"name": "code", "state": {"terminated": {"exitCode": 1}}, "ready": False, "restartCount": 0}
        failed = [{**status, "image": "i", "imageID": "i"}]
        await pod.status("Failed", {"waiting": {"reason": "PodInitializing"}}, initContainerStatuses=failed)
        await pod.until_shipped()
        preface = b"[trainmaster] init container 'code' failed; what follows is its output\n"
        assert await kept.raw(job) == preface + log.written


async def test_event_files_of_a_pods_own_volume_are_shipped(bus: Bus, node: KubernetesNode):
    async with shipping(bus, node):
        job = await submit(bus)
        volumes = [{"name": names.TENSORBOARD_VOLUME, "emptyDir": {}}]
        mounts = [{"name": names.TENSORBOARD_VOLUME, "mountPath": "/mnt/runs"}]
        told = {names.TENSORBOARD_ANNOTATION: "/mnt/runs/deep"}
        pod = await node.pod(job, annotations=told, volumes=volumes, mounts=mounts)
        runs = node.kubelet / "pods" / pod.uid / "volumes/kubernetes.io~empty-dir/tensorboard/deep"
        runs.mkdir(parents=True)
        await pod.runs()
        (runs / "a.tfevents").write_bytes(scalars("loss", [1.0]))
        await pod.ends()
        await pod.until_shipped()
        stored = node.home / "logs/store" / job / "1/worker/0/tb/a.tfevents"
        assert stored.read_bytes() == scalars("loss", [1.0])


async def test_what_a_pod_uses_is_sampled_and_told_of_a_hang(bus: Bus, node: KubernetesNode):
    async with shipping(bus, node) as (kept, _):
        job = await submit(bus)
        pod = await node.pod(job)
        group = node.cgroups / f"kubepods.slice/kubepods-pod{pod.uid.replace('-', '_')}.slice/cri-containerd-abc.scope"
        group.mkdir(parents=True)
        (node.cgroups / "cgroup.controllers").write_text("cpu memory\n")
        for name, text in {
            "cpu.stat": "usage_usec 1000000\n",
            "memory.current": f"{3 * GIB}\n",
            "memory.stat": f"inactive_file {GIB}\n",
            "cgroup.procs": "0\n0\n",
        }.items():
            (group / name).write_text(text)
        await pod.runs()
        pod.log.write(b"hello\n")
        await kept.until_sized(job, 6)

        async def sampled() -> bool | None:
            samples = pod.replica / "samples"
            return True if samples.exists() and f'"m":{2 * GIB},"p":2' in samples.read_text() else None

        await eventually(sampled)
        answer = await bus.ask(stacks_subject(MACHINE), encode_request(StacksRequest(job, 1)), within_s=20)
        (look,) = decode_look(answer).replicas
        assert look.problem.startswith("its 2 processes sleep and hold 2.0 GiB; their stacks cannot be had")
        await pod.ends()
        await pod.until_shipped()
