"""A gang's replicas reach each other and nobody else reaches them, where the cluster's network enforces policies."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from services.scheduler.ports.gangs import GangStart
from services.scheduler.ports.sandboxes import ExecEnded
from shared.ids import new_job_id
from shared.kubernetes.names import INDEX_LABEL, node_id
from tests.support.gangs import a_gang
from tests.support.kubernetes.clusters import image_of_tests
from tests.support.kubernetes.engines import engine_on, pods_of
from tests.support.kubernetes.places import IMAGE, Place, a_place
from tests.support.local_engine import Bench
from tests.support.services import eventually

ENFORCED = "TRAINMASTER_TEST_NETWORK_POLICIES"
NOT_ENFORCED = f"no nodes whose network enforces policies: set TRAINMASTER_TEST_IMAGE, and {ENFORCED}=1 where it does"
PORT = 8111
LISTEN = f"exec python3 -m http.server {PORT} --directory /tmp"
REACH = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"

pytestmark = pytest.mark.skipif(not (image_of_tests() and os.environ.get(ENFORCED)), reason=NOT_ENFORCED)


def listeners(place: Place) -> GangStart:
    made = replace(a_gang({"worker": 2}, memory_bytes=128 << 20, image=IMAGE), job=new_job_id())
    node = node_id(place.cluster.namespace, place.node)
    replicas = tuple(replace(each, command=LISTEN, node=node, cpu_m=50) for each in made.replicas)
    return replace(made, replicas=replicas)


async def address(place: Place, gang: GangStart, index: int) -> str:
    pods = {pod["metadata"]["labels"][INDEX_LABEL]: pod for pod in await pods_of(place.cluster, gang)}
    return str(pods[str(index)]["status"]["podIP"])


async def reaches(desk: Bench, gang: GangStart, host: str) -> bool:
    """Whether the gang's first replica can open a connection there."""
    command = ("python3", "-c", REACH, host, str(PORT))
    execution = await desk.engine.execute(gang.id, "worker", 0, command, 20)
    ended = [piece async for piece in execution.pieces()][-1]
    assert isinstance(ended, ExecEnded)
    return ended.code == 0


async def test_a_gang_reaches_itself_and_is_reached_by_nobody_else(tmp_path: Path):
    async with a_place("real node", tmp_path) as place, engine_on(place.cluster) as desk:
        one, other = listeners(place), listeners(place)
        for gang in (one, other):
            await desk.engine.start(gang)
            await desk.started(gang)

        async def listens() -> bool | None:
            return await reaches(desk, one, await address(place, one, 1)) or None

        await eventually(listens, 30)
        assert await reaches(desk, one, one.host_name(one.replicas[1]))
        assert await reaches(desk, other, await address(place, other, 1))
        for index in (0, 1):
            assert not await reaches(desk, one, await address(place, other, index))
            assert not await reaches(desk, other, await address(place, one, index))
        await place.start("stranger", LISTEN)
        await place.status("stranger", "Running")
        stranger = (await place.cluster.api.get(place.cluster.path("pods", "stranger"))).body["status"]["podIP"]

        async def reaches_out() -> bool | None:
            return await reaches(desk, one, stranger) or None

        await eventually(reaches_out, 30)
        await stranger_reaches_nobody(place, await address(place, one, 0))
        for gang in (one, other):
            await desk.engine.stop(gang.id, 1)
            await desk.exits(gang)


async def stranger_reaches_nobody(place: Place, host: str) -> None:
    """A pod of the same namespace that is of no gang."""
    await place.start("knocks", f"python3 -c '{REACH}' {host} {PORT}")
    assert (await place.ended("knocks"))["exitCode"] == 1
