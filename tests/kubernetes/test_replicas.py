"""What a replica finds when its pod really runs: as processes on a simulated node, and on a real node if there is one.

On real nodes the platform's own image is needed too, since it lays the code: `TRAINMASTER_TEST_PLATFORM_IMAGE`.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from services.scheduler.engines.kubernetes.engine import KubernetesEngine
from services.scheduler.engines.kubernetes.laying import TICKET_HEADER
from services.scheduler.engines.kubernetes.objects.security import namespace
from services.scheduler.ports.gangs import CodeInline, CodePacked, CodeUpload, GangMount, GangStart
from services.scheduler.ports.sandboxes import ExecEnded
from shared.admission.packing import compressed
from shared.kubernetes.names import node_id
from tests.support.gangs import a_gang
from tests.support.kubernetes.clusters import NO_NODE, platform_image_of_tests
from tests.support.kubernetes.engines import engine_on, settings_for
from tests.support.kubernetes.places import IMAGE, Place, a_place, kinds_of_places
from tests.support.local_engine import Bench
from tests.support.services import eventually

FILES = {"a/x.py": "print('laid')"}


@dataclass
class Desk:
    """An engine over a place, in whose namespace pods are as restricted as the settings let them be."""

    place: Place
    bench: Bench

    @property
    def engine(self) -> KubernetesEngine:
        return self.bench.engine

    def gang(self, command: str, replicas: int = 1, **parts: Any) -> GangStart:
        gang = a_gang({"worker": replicas}, command=command, memory_bytes=256 << 20, image=IMAGE, **parts)
        where = node_id(self.place.cluster.namespace, self.place.node)
        return replace(gang, replicas=tuple(replace(each, node=where, cpu_m=100) for each in gang.replicas))

    async def run(self, command: str, replicas: int = 1, **parts: Any) -> tuple[str, list[int | None]]:
        """What the first replica wrote, and all exit codes."""
        gang = self.gang(command, replicas, **parts)
        ends = await self.bench.run(gang)
        return await self.place.log(gang.replica_id(gang.replicas[0])), [end.code for end in ends]


@asynccontextmanager
async def desk_at(place: Place, **changes: Any) -> AsyncIterator[Desk]:
    usual = settings_for(place.cluster)
    image = platform_image_of_tests() or usual.objects.platform_image
    objects = replace(usual.objects, platform_image=image, **changes)
    labels = {"metadata": {"labels": namespace(place.cluster.namespace, objects)["metadata"]["labels"]}}
    await place.cluster.api.patch(f"/api/v1/namespaces/{place.cluster.namespace}", labels)
    async with engine_on(place.cluster, replace(usual, objects=objects)) as bench:
        yield Desk(place, bench)


@pytest.fixture(params=kinds_of_places())
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    if request.param == "real node" and not platform_image_of_tests():
        pytest.skip("TRAINMASTER_TEST_PLATFORM_IMAGE names no image of the platform that the cluster has")
    async with a_place(request.param, tmp_path) as place, desk_at(place) as made:
        yield made


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Desk]:
    if "real node" not in kinds_of_places():
        pytest.skip(NO_NODE)
    async with a_place("real node", tmp_path) as place, desk_at(place) as made:
        yield made


async def test_a_command_has_its_variables_as_they_were_written(desk: Desk):
    env = {"ODD": "$(HOME) $$ a  b"}
    said, codes = await desk.run(
        'echo "$ODD|$RANK|$WORLD_SIZE|$TOKEN|$(echo sub)|$((1+1))"; exit 3', 2, env=env, secrets={"TOKEN": "$$ geheim"}
    )
    assert said == "$(HOME) $$ a  b|0|2|$$ geheim|sub|2\n"
    assert codes == [3, 3]


async def test_the_gangs_files_are_at_their_places(desk: Desk):
    said, _ = await desk.run(
        "cat /etc/trainmaster/hosts/worker $TM_HOSTFILE; cat /job/hostfile | wc -l", 2, hostfile_at="/job/hostfile"
    )
    gang = desk.gang("", 2)
    hosts = [gang.host_name(replica) for replica in gang.replicas]
    assert said.split("\n") == [*hosts, *(f"{host} slots=1" for host in hosts), "2", ""]


@pytest.mark.parametrize(
    "code", [CodeInline({"a/x.py": "print('laid')"}), CodePacked(compressed({"a/x.py": "print('laid')"}))]
)
async def test_code_is_laid_where_the_command_starts_and_may_be_changed(desk: Desk, code):
    said, codes = await desk.run("python3 a/x.py && pwd && touch a/new && ls a", code=code)
    assert (said, codes) == ("laid\n/code\nnew\nx.py\n", [0])


@asynccontextmanager
async def giving(archive: bytes, ticket: str) -> AsyncIterator[str]:
    """The address of a scheduler that gives a gang's code to whoever shows the ticket."""

    async def give(request: web.Request) -> web.Response:
        return web.Response(body=archive, status=200 if request.headers.get(TICKET_HEADER) == ticket else 403)

    app = web.Application()
    app.router.add_get("/v1/gang-code/tj-abcdefghijkl-1", give)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield "http://{}:{}".format(*runner.addresses[0])
    await runner.cleanup()


async def test_large_code_is_fetched_by_each_pod_with_its_ticket(tmp_path: Path):
    archive = compressed(FILES)
    code = CodeUpload(f"sha256:{hashlib.sha256(archive).hexdigest()}", "billet")
    async with (
        giving(archive, "billet") as address,
        a_place("processes", tmp_path) as place,
        desk_at(place, code_url=address) as desk,
    ):
        assert await desk.run("python3 a/x.py; echo $TM_CODE_TICKET", code=code) == ("laid\n\n", [0])
        (end,) = await desk.bench.run(replace(desk.gang("true", code=replace(code, ticket="no")), attempt=2))
    assert "cannot be fetched" in end.message


async def test_code_that_cannot_be_laid_ends_the_replica_with_the_reason(desk: Desk):
    (end,) = await desk.bench.run(desk.gang("true", code=CodePacked(b"no archive")))
    assert (end.cause, end.code) == ("never-started", None)
    assert "code from the archive" in end.message


async def test_replicas_find_each_other_by_name_and_may_write_to_shared_memory(desk: Desk):
    finding = "until getent hosts $MASTER_ADDR >/dev/null; do sleep 0.2; done; echo found"
    script = f"{finding}; echo x > /dev/shm/x && cat /dev/shm/x"
    said, codes = await desk.run(script, 2)
    assert (said, codes) == ("found\nx\n", [0, 0])


async def test_a_stop_lets_every_process_of_a_replica_finish(desk: Desk):
    saving = "setsid bash -c \"trap 'sleep 0.3; exit' TERM; sh -c 'echo ready; exec sleep 1000' & wait\" & wait"
    gang = desk.gang(saving, termination_grace_s=20)
    await desk.engine.start(gang)
    await desk.bench.started(gang)
    await desk.place.says(gang.replica_id(gang.replicas[0]), "ready")
    await desk.engine.stop(gang.id, 20)
    (end,) = await desk.bench.exits(gang)
    assert end.code == 143


# --- on a real node alone: users and what they may not do


async def test_a_replica_is_no_root_and_has_no_rights(real: Desk):
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


async def test_commands_run_beside_a_replicas_own(real: Desk):
    gang = real.gang("touch /tmp/mine; echo ready; sleep 1000", env={"X": "y"})
    await real.engine.start(gang)
    await real.bench.started(gang)

    async def run(command: str, limit_s: float = 30) -> tuple[str, ExecEnded]:
        execution = await real.engine.execute(gang.id, "worker", 0, ("bash", "-c", command), limit_s)
        *pieces, end = [piece async for piece in execution.pieces()]
        return b"".join(piece.data for piece in pieces).decode(), end

    assert await run("ls /tmp/mine; echo $X $RANK; exit 4") == ("/tmp/mine\ny 0\n", ExecEnded(4))
    assert (await run("seq 1 100000"))[0].endswith("99999\n100000\n")
    _, end = await run("setsid sleep 4321 & sleep 4321", limit_s=1)
    assert end.code == 124
    assert (await run("sleep 1; grep -lzx '432[1]' /proc/[0-9]*/cmdline 2>/dev/null | wc -l"))[0] == "0\n"

    execution = await real.engine.execute(gang.id, "worker", 0, ("bash", "-c", "echo on; sleep 8765"), 60)
    pieces = execution.pieces()
    assert (await anext(pieces)).data == b"on\n"
    await pieces.aclose()
    assert (await run("sleep 1; grep -lzx '876[5]' /proc/[0-9]*/cmdline 2>/dev/null | wc -l"))[0] == "0\n"


async def test_a_claim_that_does_not_exist_is_named_while_the_replica_waits(real: Desk):
    gang = real.gang("true", mounts=(GangMount(None, "/mnt/data", uri="pvc://team-data"),))
    await real.engine.start(gang)
    wanted = f"the claim team-data does not exist in namespace {real.place.cluster.namespace}"

    async def is_told() -> bool | None:
        return real.engine.holdups(gang.id) == {"worker-0": wanted} or None

    await eventually(is_told, 120)
