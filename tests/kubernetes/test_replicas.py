"""What a replica finds when its pod really runs: as processes on a simulated node, and on a real node if there is one.

The image of the tests (`TRAINMASTER_TEST_IMAGE`) has to have the platform in it, as it lays code, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from services.scheduler.engines.kubernetes.objects import ObjectSettings
from services.scheduler.engines.kubernetes.objects.namespaces import Namespaces
from services.scheduler.engines.kubernetes.objects.security import namespace
from services.scheduler.engines.kubernetes.objects.settings import S3Volumes, VolumeSettings
from services.scheduler.ports import CodeInline, CodePacked, ExecEnded, GangStart
from shared.admission.packing import compressed
from shared.kubernetes.names import node_id
from tests.support.gangs import a_gang
from tests.support.kubernetes.clusters import NO_NODE, Cluster, a_cluster, image_of_tests
from tests.support.kubernetes.engines import engine_on, settings_for
from tests.support.kubernetes.kubelet import SimulatedKubelet
from tests.support.kubernetes.nodes import NodeSpec
from tests.support.kubernetes.processes import ProcessRunner
from tests.support.local_engine import Bench
from tests.support.services import eventually

IMAGE = image_of_tests()
SIMULATED = "process-node"
FILES = {"a/x.py": "print('laid')"}


@dataclass
class Place:
    """An engine over a cluster with one node that runs pods."""

    cluster: Cluster
    node: str
    desk: Bench

    def gang(self, command: str, replicas: int = 1, **parts) -> GangStart:
        gang = a_gang({"worker": replicas}, command=command, memory_bytes=256 << 20, **parts)
        where = node_id(self.cluster.namespace, self.node)
        placed = tuple(replace(each, node=where, cpu_m=100) for each in gang.replicas)
        return replace(gang, replicas=placed, image=IMAGE or "none")

    async def run(self, command: str, replicas: int = 1, **parts) -> tuple[str, list[int | None]]:
        """What the first replica wrote, and all exit codes."""
        gang = self.gang(command, replicas, **parts)
        ends = await self.desk.run(gang)
        return await self.log(gang), [end.code for end in ends]

    async def log(self, gang: GangStart) -> str:
        path = self.cluster.path("pods", gang.replica_id(gang.replicas[0]), "log")
        answer = await self.cluster.api.get(path, container="replica")
        assert "text" in answer.body, answer
        return answer.body["text"]


@asynccontextmanager
async def engine_in(cluster: Cluster, node: str, objects: ObjectSettings) -> AsyncIterator[Place]:
    labels = {"metadata": {"labels": namespace(cluster.namespace, objects)["metadata"]["labels"]}}
    await cluster.api.patch(f"/api/v1/namespaces/{cluster.namespace}", labels)
    async with engine_on(cluster, settings_for(cluster, objects=objects)) as desk:
        await desk.engine.inventory()
        yield Place(cluster, node, desk)


def objects_for(cluster: Cluster) -> ObjectSettings:
    volumes = VolumeSettings(s3=S3Volumes({"bucket": "claim"}))
    return ObjectSettings(
        Namespaces(cluster.namespace), cluster=cluster.namespace, platform_image=IMAGE or "none", volumes=volumes
    )


@asynccontextmanager
async def processes(tmp_path: Path) -> AsyncIterator[Place]:
    async with a_cluster("test server", tmp_path) as cluster:
        runner = ProcessRunner(cluster.api, tmp_path / "node")
        cluster.server.api.logs = runner.read_logs
        async with (
            SimulatedKubelet(cluster.api, [NodeSpec(SIMULATED)], runner=runner),
            engine_in(cluster, SIMULATED, objects_for(cluster)) as place,
        ):
            yield place


@asynccontextmanager
async def real_node(tmp_path: Path) -> AsyncIterator[Place]:
    async with a_cluster("cluster", tmp_path) as cluster:
        nodes = (await cluster.api.get("/api/v1/nodes")).body["items"]
        async with engine_in(cluster, nodes[0]["metadata"]["name"], objects_for(cluster)) as place:
            yield place


@pytest.fixture(params=["processes", "real node"] if IMAGE else ["processes"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with (processes if request.param == "processes" else real_node)(tmp_path) as found:
        yield found


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Place]:
    if not IMAGE:
        pytest.skip(NO_NODE)
    async with real_node(tmp_path) as found:
        yield found


async def test_a_command_has_its_variables_as_they_were_written(place: Place):
    env = {"ODD": "$(HOME) $$ a  b"}
    said, codes = await place.run(
        'echo "$ODD|$RANK|$WORLD_SIZE|$TOKEN|$(echo sub)|$((1+1))"; exit 3', 2, env=env, secrets={"TOKEN": "$$ geheim"}
    )
    assert said == "$(HOME) $$ a  b|0|2|$$ geheim|sub|2\n"
    assert codes == [3, 3]


async def test_the_gangs_files_are_at_their_places(place: Place):
    said, _ = await place.run(
        "cat /etc/trainmaster/hosts/worker $TM_HOSTFILE; cat /job/hostfile | wc -l", 2, hostfile_at="/job/hostfile"
    )
    gang = place.gang("", 2)
    hosts = [gang.host_name(replica) for replica in gang.replicas]
    assert said.split("\n") == [*hosts, *(f"{host} slots=1" for host in hosts), "2", ""]


@pytest.mark.parametrize(
    "code", [CodeInline({"a/x.py": "print('laid')"}), CodePacked(compressed({"a/x.py": "print('laid')"}))]
)
async def test_code_is_laid_where_the_command_starts_and_may_be_changed(place: Place, code):
    said, codes = await place.run("python3 a/x.py && pwd && touch a/new && ls a", code=code)
    assert (said, codes) == ("laid\n/code\nnew\nx.py\n", [0])


async def test_code_that_cannot_be_laid_ends_the_replica_with_the_reason(place: Place):
    (end,) = await place.desk.run(place.gang("true", code=CodePacked(b"no archive")))
    assert (end.cause, end.code) == ("never-started", None)
    assert "code from the archive" in end.message


async def test_replicas_find_each_other_by_name_and_may_write_to_shared_memory(place: Place):
    finding = "until getent hosts $MASTER_ADDR >/dev/null; do sleep 0.2; done; echo found"
    script = f"{finding}; echo x > /dev/shm/x && cat /dev/shm/x"
    said, codes = await place.run(script, 2)
    assert (said, codes) == ("found\nx\n", [0, 0])


async def has_said(place: Place, gang: GangStart, word: str) -> bool | None:
    return word in await place.log(gang) or None


async def test_a_stop_lets_every_process_of_a_replica_finish(place: Place):
    saving = "setsid bash -c \"trap 'sleep 0.3; echo saved; exit' TERM; echo ready; sleep 1000 & wait\" & wait"
    gang = place.gang(saving, termination_grace_s=20)
    await place.desk.engine.start(gang)
    await place.desk.started(gang)
    assert await eventually(lambda: has_said(place, gang, "ready"))
    await place.desk.engine.stop(gang.id, 20)
    (end,) = await place.desk.exits(gang)
    assert end.code == 143


# --- on a real node alone: users and what they may not do


async def test_a_replica_is_no_root_and_has_no_rights(real: Place):
    script = (
        "id -u; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'; echo $HOME $USER; "
        "ls /var/run/secrets 2>&1 | tail -1; touch /usr/x 2>&1 | tail -1"
    )
    said, _ = await real.run(script)
    uid, *rights, names, token, written = said.splitlines()
    assert uid == "1000"
    assert rights == ["CapEff:0000000000000000", "NoNewPrivs:1", "Seccomp:2"]
    assert names == "/tmp trainmaster"
    assert "No such file" in token
    assert "Permission denied" in written


async def test_commands_run_beside_a_replicas_own(real: Place):
    gang = real.gang("touch /tmp/mine; echo ready; sleep 1000", env={"X": "y"})
    await real.desk.engine.start(gang)
    await real.desk.started(gang)

    async def run(command: str, limit_s: float = 30) -> tuple[str, ExecEnded]:
        execution = await real.desk.engine.execute(gang.id, "worker", 0, ("bash", "-c", command), limit_s)
        *pieces, end = [piece async for piece in execution.pieces()]
        return b"".join(piece.data for piece in pieces).decode(), end

    assert await run("ls /tmp/mine; echo $X $RANK; exit 4") == ("/tmp/mine\ny 0\n", ExecEnded(4))
    assert (await run("seq 1 100000"))[0].endswith("99999\n100000\n")
    _, end = await run("setsid sleep 4321 & sleep 4321", limit_s=1)
    assert end.code == 124
    assert (await run("sleep 1; grep -lzx '432[1]' /proc/[0-9]*/cmdline 2>/dev/null | wc -l"))[0] == "0\n"

    execution = await real.desk.engine.execute(gang.id, "worker", 0, ("bash", "-c", "echo on; sleep 8765"), 60)
    pieces = execution.pieces()
    assert (await anext(pieces)).data == b"on\n"
    await pieces.aclose()
    assert (await run("sleep 1; grep -lzx '876[5]' /proc/[0-9]*/cmdline 2>/dev/null | wc -l"))[0] == "0\n"
