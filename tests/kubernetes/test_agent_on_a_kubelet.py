"""The node agent beside a real kubelet on this machine: real containers, rotated for real, byte for byte.

`TRAINMASTER_TEST_KUBELET` names the kubelet's root directory; its logs are in `/var/log/pods`, as everywhere, or where
`TRAINMASTER_POD_LOGS` says: kubelets of one machine need one each, as they remove the logs of pods they do not know.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.watchdog.adapters.agents import decode_look
from shared.agent_evidence import StacksRequest, encode_request, stacks_subject
from shared.bus import Bus
from shared.kubernetes import names
from tests.support.kubernetes.clusters import NO_NODE, Cluster, a_cluster, image_of_tests, real_kubeconfig
from tests.support.logs import AgentProcess, keeping_logs, submit
from tests.support.services import eventually

KUBELET = os.environ.get("TRAINMASTER_TEST_KUBELET", "")
NODE = os.environ.get("TRAINMASTER_TEST_NODE", "vm")
pytestmark = [
    pytest.mark.skipif(not (KUBELET and image_of_tests() and real_kubeconfig()), reason=NO_NODE),
    pytest.mark.timeout(240),
]
WRITER = """
import random, sys, time
source, out = random.Random(7), sys.stdout.buffer
for number in range(int(sys.argv[1])):
    out.write(source.randbytes(source.choice([10, 1000, 40_000])).replace(b"\\r", b""))
    out.write(b"\\r 10%\\r 20%\\n" * 50)
    out.flush()
    time.sleep(float(sys.argv[2]))
out.write(b"no end")
"""


def written(count: int) -> bytes:
    """What the writer writes."""
    source, parts = random.Random(7), []  # noqa: S311  # the same bytes as the writer's
    for _ in range(count):
        parts.append(source.randbytes(source.choice([10, 1000, 40_000])).replace(b"\r", b""))
        parts.append(b"\r 10%\r 20%\n" * 50)
    return b"".join(parts) + b"no end"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster("cluster", tmp_path) as found:
        yield found


def agent_for(home: Path, url: str, cluster: Cluster) -> AgentProcess:
    variables = {
        "TRAINMASTER_AGENT_SOURCE": "kubernetes",
        "TRAINMASTER_NODE_NAME": NODE,
        "TRAINMASTER_KUBELET_ROOT": KUBELET,
        "TRAINMASTER_SAMPLE_S": "0.5",
        "KUBECONFIG": str(cluster.kubeconfig),
    }
    home.mkdir(exist_ok=True)
    return AgentProcess(home, url, variables)


async def start(cluster: Cluster, job: str, *command: str, **spec: Any) -> str:
    name = f"{job}-1-worker-0"
    labels = {names.MANAGED_BY_LABEL: names.MANAGED_BY, names.JOB_LABEL: job, names.ATTEMPT_LABEL: "1"}
    labels |= {names.ROLE_LABEL: "worker", names.INDEX_LABEL: "0", names.CLUSTER_LABEL: "main"}
    container = {"name": names.REPLICA_CONTAINER, "image": image_of_tests(), "command": list(command)}
    container |= {"imagePullPolicy": "IfNotPresent", "volumeMounts": spec.pop("mounts", [])}
    whole = {"nodeName": NODE, "restartPolicy": "Never", "containers": [container], **spec}
    whole |= {"tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 1}
    annotations = {names.TENSORBOARD_ANNOTATION: "/runs"} if whole.get("volumes") else {}
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    made = await cluster.api.post(cluster.path("pods"), {"metadata": metadata, "spec": whole})
    assert made.status == 201, made.message
    return name


async def test_what_a_real_container_writes_is_identical_through_rotation_and_a_killed_agent(
    bus: Bus, cluster: Cluster, tmp_path: Path
):
    agent = agent_for(tmp_path / "home", bus.options.url, cluster)
    async with keeping_logs(bus, tmp_path / "home") as kept:
        job = await submit(bus)
        await agent.start()
        try:
            await start(cluster, job, "python3", "-c", WRITER, "2500", "0.006")
            for _ in range(3):
                await asyncio.sleep(5)
                await agent.kill()
                await agent.start()
            await kept.until_ended(job, limit_s=120)
        finally:
            await agent.stop()
        assert await kept.raw(job) == written(2500)


async def test_a_deleted_pod_is_shipped_to_its_end_with_its_event_files_and_samples(
    bus: Bus, cluster: Cluster, tmp_path: Path
):
    agent = agent_for(tmp_path / "home", bus.options.url, cluster)
    command = "echo up; echo events > /runs/a.tfevents; trap 'echo saved; exit 3' TERM; while true; do :; done"
    volumes, mounts = [{"name": "runs", "emptyDir": {}}], [{"name": "runs", "mountPath": "/runs"}]
    async with keeping_logs(bus, tmp_path / "home") as kept:
        job = await submit(bus)
        await agent.start()
        try:
            name = await start(cluster, job, "bash", "-c", command, volumes=volumes, mounts=mounts)
            await kept.until_sized(job, 3)
            replica = tmp_path / "home" / "gangs" / f"{job}-1" / "replicas" / "worker-0"

            async def sampled() -> bool | None:
                samples = replica / "samples"
                return True if samples.exists() and '"c":0.' in samples.read_text() else None

            await eventually(sampled)
            subject = stacks_subject(names.machine_name("main", NODE))
            answer = decode_look(await bus.ask(subject, encode_request(StacksRequest(job, 1)), within_s=30))
            (process, *_) = answer.replicas[0].processes
            assert process.command.startswith("bash -c echo up")
            assert process.cpu_percent > 10
            await cluster.api.delete(cluster.path("pods", name))
            await kept.until_ended(job, limit_s=60)
        finally:
            await agent.stop()
        assert await kept.raw(job) == b"up\nsaved\n"
        stored = tmp_path / "home/logs/store" / job / "1/worker/0/tb/a.tfevents"
        assert stored.read_bytes() == b"events\n"
