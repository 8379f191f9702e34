"""The faults that tests can make the test server have, seen through an ordinary client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import aiohttp
import pytest

from tests.support.kubernetes.clusters import Cluster, a_cluster
from tests.support.kubernetes.connection import connected
from tests.support.kubernetes.objects import config_map, made, pod
from tests.support.kubernetes.resources import Json
from tests.support.kubernetes.server import ApiServer

WATCHED = "configmaps"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster("test server", tmp_path) as found:
        yield found


@pytest.fixture
def server(cluster: Cluster) -> ApiServer:
    assert cluster.server is not None
    return cluster.server


class Follower:
    """A watch, and what came of it."""

    def __init__(self, cluster: Cluster, **query: object):
        self.seen: list[Json] = []
        self.ended = asyncio.create_task(self._follow(cluster, query))

    async def _follow(self, cluster: Cluster, query: dict[str, object]) -> None:
        async with aclosing(cluster.api.watch(cluster.path(WATCHED), **query)) as watch:
            async for event in watch:
                self.seen.append(event)


async def following(cluster: Cluster, server: ApiServer, **query: object) -> Follower:
    """A watch that is open."""
    follower = Follower(cluster, resourceVersion=server.store.revision, **query)
    async with asyncio.timeout(45):
        while not server.watches:
            await asyncio.sleep(0.01)
    return follower


async def test_refusals_come_so_often_as_asked_for(cluster: Cluster, server: ApiServer) -> None:
    fault = server.faults.refuse("^POST .*/configmaps", code=429, times=2, retry_after_s=3)
    for _ in range(2):
        answer = await cluster.api.post(cluster.path("configmaps"), config_map("a"))
        assert (answer.status, answer.reason, answer.headers["Retry-After"]) == (429, "TooManyRequests", "3")
    await made(cluster, "configmaps", config_map("a"))
    assert fault.hits == 2


async def test_a_dropped_request_does_nothing(cluster: Cluster, server: ApiServer) -> None:
    server.faults.drop("^POST")
    with pytest.raises(aiohttp.ClientError):
        await cluster.api.post(cluster.path("configmaps"), config_map("a"))
    assert (await cluster.api.get(cluster.path("configmaps", "a"))).status == 404


async def test_a_lost_answer_leaves_the_object_made(cluster: Cluster, server: ApiServer) -> None:
    server.faults.lose_answer("^POST")
    with pytest.raises(aiohttp.ClientError):
        await cluster.api.post(cluster.path("configmaps"), config_map("a"))
    assert (await cluster.api.get(cluster.path("configmaps", "a"))).status == 200


async def test_a_late_answer_comes_after_others(cluster: Cluster, server: ApiServer) -> None:
    server.faults.delay("configmaps/a", 0.2)
    late = asyncio.create_task(cluster.api.get(cluster.path("configmaps", "a")))
    await asyncio.sleep(0.05)
    assert (await cluster.api.get(cluster.path("configmaps", "b"))).status == 404
    assert not late.done()
    assert (await late).status == 404


async def test_a_watch_cut_between_events_loses_none_before(cluster: Cluster, server: ApiServer) -> None:
    follower = await following(cluster, server)
    await made(cluster, WATCHED, config_map("a"))
    await asyncio.sleep(0.05)
    server.faults.cut_watches()
    with pytest.raises(aiohttp.ClientError):
        await follower.ended
    assert [each["object"]["metadata"]["name"] for each in follower.seen] == ["a"]


async def test_a_watch_cut_in_mid_event_leaves_half_a_line(cluster: Cluster, server: ApiServer) -> None:
    follower = await following(cluster, server)
    server.faults.cut_watches(mid_event=True)
    await made(cluster, WATCHED, config_map("a"))
    with pytest.raises(aiohttp.ClientError):
        await follower.ended
    assert follower.seen == []
    again = await following(cluster, server)  # one that is opened afterwards is whole
    await made(cluster, WATCHED, config_map("b"))
    await asyncio.sleep(0.05)
    assert [each["object"]["metadata"]["name"] for each in again.seen] == ["b"]
    again.ended.cancel()


async def test_a_silent_watch_tells_nothing_until_it_speaks_again(cluster: Cluster, server: ApiServer) -> None:
    follower = await following(cluster, server)
    server.faults.silence_watches()
    await made(cluster, WATCHED, config_map("a"))
    await asyncio.sleep(0.1)
    assert follower.seen == []
    server.faults.silence_watches(silent=False)
    async with asyncio.timeout(45):
        while not follower.seen:
            await asyncio.sleep(0.01)
    follower.ended.cancel()


async def test_a_watch_that_is_lost_stays_silent_and_one_that_is_opened_later_does_not(
    cluster: Cluster, server: ApiServer
) -> None:
    lost = await following(cluster, server)
    server.faults.lose_watches()
    later = await following(cluster, server)
    await made(cluster, WATCHED, config_map("a"))
    async with asyncio.timeout(45):
        while not later.seen:
            await asyncio.sleep(0.01)
    assert lost.seen == []
    lost.ended.cancel()
    later.ended.cancel()


async def test_a_running_watch_can_expire(cluster: Cluster, server: ApiServer) -> None:
    follower = await following(cluster, server)
    server.faults.expire_watches()
    await follower.ended
    assert [(each["type"], each["object"]["code"]) for each in follower.seen] == [("ERROR", 410)]


async def test_a_forgotten_revision_can_be_refused_with_a_status(cluster: Cluster, server: ApiServer) -> None:
    await made(cluster, WATCHED, config_map("a"))
    server.compact()
    server.faults.gone_as_status = True
    follower = Follower(cluster, resourceVersion="1")
    await follower.ended
    assert [(each["type"], each["object"]["code"]) for each in follower.seen] == [("STATUS", 410)]


async def test_pages_expire_with_what_they_show(cluster: Cluster, server: ApiServer) -> None:
    for name in "abc":
        await made(cluster, "configmaps", config_map(name))
    page = (await cluster.api.get(cluster.path("configmaps"), limit=1)).body
    server.compact()
    answer = await cluster.api.get(cluster.path("configmaps"), **{"continue": page["metadata"]["continue"]})
    assert (answer.status, answer.reason) == (410, "Expired")


async def test_a_server_that_was_away_has_what_it_had(cluster: Cluster, server: ApiServer) -> None:
    await made(cluster, "pods", pod("a"))
    before = server.counts()
    follower = await following(cluster, server)
    async with server.away():
        with pytest.raises(aiohttp.ClientError):
            await cluster.api.get("/version")
        with pytest.raises(aiohttp.ClientError):
            await follower.ended
    assert (await cluster.api.get(cluster.path("pods", "a"))).status == 200
    assert server.counts() == before
    assert server.count("pods", cluster.namespace) == 1
    assert server.requests["create pods"] == 1


async def test_bookmarks_come_as_often_as_the_server_is_told(tmp_path: Path) -> None:
    server = ApiServer(bookmark_interval_s=0.05)
    await server.start()
    try:
        async with connected(server.write_kubeconfig(tmp_path / "kubeconfig")) as api, asyncio.timeout(45):
            query = {"allowWatchBookmarks": "true", "resourceVersion": "1"}
            async with aclosing(api.watch("/api/v1/configmaps", **query)) as watch:
                assert [(await anext(watch))["type"] for _ in range(3)] == ["BOOKMARK"] * 3
    finally:
        await server.stop()


async def test_a_new_namespace_can_be_without_its_service_account_for_a_moment(
    cluster: Cluster, server: ApiServer
) -> None:
    server.account_delay_s = 0.1
    await cluster.api.post("/api/v1/namespaces", {"metadata": {"name": "new"}})
    assert (await cluster.api.post("/api/v1/namespaces/new/pods", pod("a"))).status == 403
    async with asyncio.timeout(45):
        while (await cluster.api.post("/api/v1/namespaces/new/pods", pod("a"))).status != 201:
            await asyncio.sleep(0.02)
