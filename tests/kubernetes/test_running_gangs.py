"""Gangs of the Kubernetes engine whose commands really run, on simulated nodes and on real ones where there are some.

On real nodes the platform's own image is needed too, since it lays the code: `TRAINMASTER_TEST_PLATFORM_IMAGE`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.scheduler.engines.kubernetes.engine import EngineSettings
from services.scheduler.ports.gangs import CodeInline, GangStart
from services.scheduler.ports.sandboxes import ExecEnded, ExecOutput
from shared.events import OutOfMemory
from shared.kubernetes.names import node_id
from tests.support.gangs import a_gang
from tests.support.kubernetes.clusters import NO_NODE, platform_image_of_tests
from tests.support.kubernetes.engines import (
    belongings,
    die_while_starting,
    engine_on,
    pods_of,
    settings_for,
    until_left,
)
from tests.support.kubernetes.meddling import Meddling, delete, delete_by_force, evict
from tests.support.kubernetes.places import IMAGE, Place, a_place, kinds_of_places
from tests.support.local_engine import Bench
from tests.support.nats import free_port

MEBIBYTE = 1 << 20
# The record, the environment, the network policy, and a pod.
REQUESTS_FOR_ONE_POD = 4
HELD_S = 2
TRAIN = """
import os, pathlib, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["PORT"]))
if rank == 0:
    server = socket.create_server(("0.0.0.0", place[1]))
    other, _ = server.accept()
    print("rank 0 heard", other.recv(100).decode())
else:
    while True:
        try:
            socket.create_connection(place).sendall(b"rank %d of %d" % (rank, size))
            break
        except OSError:
            time.sleep(0.1)
    print("rank", rank, "has told")
print(pathlib.Path("/etc/trainmaster/hosts/worker").read_text().split() == os.environ["VC_WORKER_HOSTS"].split(","))
"""


@pytest.fixture(params=kinds_of_places())
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    if request.param == "real node" and not platform_image_of_tests():
        pytest.skip("TRAINMASTER_TEST_PLATFORM_IMAGE names no image of the platform that the cluster has")
    async with a_place(request.param, tmp_path) as found:
        yield found


def gang(place: Place, *commands: str, memory_mib: int = 128, **parts: Any) -> GangStart:
    """A replica a command, all on the one node."""
    made = a_gang({"worker": len(commands)}, memory_bytes=memory_mib * MEBIBYTE, image=IMAGE, **parts)
    replicas = [
        replace(each, command=command, node=node_id(place.cluster.namespace, place.node), cpu_m=100)
        for each, command in zip(made.replicas, commands, strict=True)
    ]
    return replace(made, replicas=tuple(replicas))


def settings(place: Place) -> EngineSettings:
    usual = settings_for(place.cluster)
    image = platform_image_of_tests() or usual.objects.platform_image
    return replace(usual, objects=replace(usual.objects, platform_image=image))


async def test_replicas_find_each_other_and_run_the_code_that_was_handed_in(place: Place) -> None:
    before = await belongings(place.cluster)
    code = CodeInline({"train.py": TRAIN})
    pair = gang(place, *["python3 train.py"] * 2, code=code, env={"PORT": str(free_port())})
    async with engine_on(place.cluster, settings(place)) as desk:
        assert [end.code for end in await desk.run(pair)] == [0, 0]
        logs = [await place.log(pair.replica_id(each)) for each in pair.replicas]
        await desk.engine.forget(pair.id)
        await until_left(place.cluster, before)
    assert logs == ["rank 0 heard rank 1 of 2\nTrue\n", "rank 1 has told\nTrue\n"]


async def test_no_command_runs_before_all_replicas_are_there(place: Place) -> None:
    pair = gang(place, "echo up; sleep 1000", "echo up; sleep 1000")
    async with engine_on(place.cluster, settings(place)) as desk:
        await die_while_starting(place.cluster, pair, REQUESTS_FOR_ONE_POD, settings(place))
        await asyncio.sleep(HELD_S)
        made = await pods_of(place.cluster, pair)
        assert len(made) < len(pair.replicas)  # which request is the last depends on what else is asked meanwhile
        assert {(pod["spec"]["nodeName"], pod["status"]["phase"]) for pod in made} <= {(place.node, "Pending")}
        await desk.engine.start(pair)
        await desk.started(pair)
        await desk.engine.stop(pair.id, 1)
        await desk.exits(pair)


async def test_codes_and_signals_are_told(place: Place) -> None:
    three = gang(place, "exit 3", "kill -KILL $$", "exit 0")
    async with engine_on(place.cluster, settings(place)) as desk:
        ends = await desk.run(three)
    assert [(end.code, end.signal) for end in ends] == [(3, None), (137, None), (0, None)]
    assert {end.cause for end in ends} == {"exited"}


async def test_a_stop_gives_the_command_its_grace(place: Place) -> None:
    pair = gang(
        place, "trap 'exit 5' TERM; echo up; while true; do sleep 0.1; done", "trap '' TERM; echo up; sleep 1000"
    )
    async with engine_on(place.cluster, settings(place)) as desk:
        await desk.engine.start(pair)
        await desk.started(pair)
        for each in pair.replicas:
            await place.says(pair.replica_id(each), "up")
        assert await desk.engine.stop(pair.id, 3)
        ends = await desk.exits(pair)
    assert {end.cause for end in ends} == {"stopped"}
    assert ends[0].code == 5


@pytest.mark.skipif("real node" not in kinds_of_places(), reason=NO_NODE)
async def test_a_replica_out_of_memory_is_told_as_such(tmp_path: Path) -> None:
    async with a_place("real node", tmp_path) as place:
        hungry = gang(place, "python3 -c 'x = bytearray(512 << 20); x[::4096] = x[::4096]'")
        async with engine_on(place.cluster, settings(place)) as desk:
            end = (await desk.run(hungry))[0]
    assert end.out_of_memory is OutOfMemory.CERTAIN


@pytest.mark.skipif("real node" not in kinds_of_places(), reason=NO_NODE)
@pytest.mark.parametrize(
    ("meddle", "told"),
    [
        (delete, "somebody deleted its pod"),
        (delete_by_force, "its pod vanished: somebody deleted its pod"),
        (evict, "it was evicted through the API, as when a node is drained (Eviction API: evicting)"),
    ],
)
async def test_a_replica_whose_pod_somebody_removes_from_a_real_node_is_lost_and_the_gang_can_be_removed(
    tmp_path: Path, meddle: Meddling, told: str
) -> None:
    async with a_place("real node", tmp_path) as place:
        before = await belongings(place.cluster)
        pair = gang(place, *["trap 'exit 0' TERM; while true; do sleep 0.1; done"] * 2)
        async with engine_on(place.cluster, settings(place)) as desk:
            await desk.engine.start(pair)
            await desk.started(pair)
            made = {pod["metadata"]["uid"] for pod in await pods_of(place.cluster, pair)}
            await meddle(place.cluster, pair.replica_id(pair.replicas[0]))
            await desk.until(f"{pair.replica_id(pair.replicas[0])}/exited")
            await desk.engine.start(pair)
            assert {pod["metadata"]["uid"] for pod in await pods_of(place.cluster, pair)} <= made
            await desk.engine.stop(pair.id, 5)
            first, second = await desk.exits(pair)
            await desk.engine.forget(pair.id)
            await until_left(place.cluster, before)
    assert (first.cause, first.message) == ("lost", told)
    assert second.cause == "stopped"


@pytest.mark.skipif("real node" not in kinds_of_places(), reason=NO_NODE)
async def test_a_command_runs_in_the_container_of_a_replica(tmp_path: Path) -> None:
    async with a_place("real node", tmp_path) as place:
        one = gang(place, "echo mine > /tmp/mine; sleep 1000", env={"COLOUR": "green"})
        async with engine_on(place.cluster, settings(place)) as desk:
            await desk.engine.start(one)
            await desk.started(one)
            script = "until [ -s /tmp/mine ]; do sleep 0.1; done; cat /tmp/mine; echo $COLOUR; exit 3"
            execution = await desk.engine.execute(one.id, "worker", 0, ("bash", "-c", script), 30)
            *pieces, told = [piece async for piece in execution.pieces()]
            await desk.engine.stop(one.id, 1)
            await desk.exits(one)
    assert b"".join(piece.data for piece in pieces if isinstance(piece, ExecOutput)) == b"mine\ngreen\n"
    assert told == ExecEnded(3)


@pytest.mark.skipif("real node" not in kinds_of_places(), reason=NO_NODE)
async def test_an_image_that_a_real_node_cannot_have_is_what_replicas_wait_for(tmp_path: Path) -> None:
    async with a_place("real node", tmp_path) as place:
        before = await belongings(place.cluster)
        pair = replace(gang(place, "true", "true"), image="registry.invalid/none:1")
        async with engine_on(place.cluster, settings(place)) as desk:
            await desk.engine.start(pair)
            async with asyncio.timeout(60):
                while not all("cannot be pulled" in reason for reason in reasons_of(desk, pair)):
                    await asyncio.sleep(0.1)
            reasons = reasons_of(desk, pair)
            await desk.engine.stop(pair.id, 1)
            ends = await desk.exits(pair)
            await desk.engine.forget(pair.id)
            await until_left(place.cluster, before)
    assert {end.cause for end in ends} == {"never-started"}
    assert all("the image registry.invalid/none:1 cannot be pulled" in reason for reason in reasons)


def reasons_of(desk: Bench, gang: GangStart) -> list[str]:
    """Why its replicas do not run, an empty text where nothing is told."""
    told = desk.engine.holdups(gang.id)
    return [told.get(f"{each.role}-{each.index}", "") for each in gang.replicas]
