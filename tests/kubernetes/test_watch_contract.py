"""Lists and watches as this project counts on them, asked of the test server and of a real API server alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.support.kubernetes.clusters import Cluster, a_cluster, kinds_of_clusters
from tests.support.kubernetes.objects import made, pod
from tests.support.kubernetes.resources import Json
from tests.support.services import eventually

NOT_OURS = "ca.crt"  # controllers publish certificates in every namespace, a moment after its start


@pytest.fixture(params=kinds_of_clusters())
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with a_cluster(request.param, tmp_path) as found:
        yield found


async def put(cluster: Cluster, name: str, value: str = "1", **labels: str) -> Json:
    """Make the object or give it another value."""
    body = {"metadata": {"name": name, "labels": labels}, "data": {"key": value}}
    answer = await cluster.api.post(cluster.path("configmaps"), body)
    if answer.status == 409:
        answer = await cluster.api.put(cluster.path("configmaps", name), body)
    assert answer.status in {200, 201}, answer.message
    return answer.body


async def remove(cluster: Cluster, name: str) -> None:
    assert (await cluster.api.delete(cluster.path("configmaps", name))).status == 200


async def revision(cluster: Cluster) -> str:
    return str((await cluster.api.get(cluster.path("configmaps"))).body["metadata"]["resourceVersion"])


async def events(cluster: Cluster, count: int, **query: object) -> list[Json]:
    """The next so many events of a watch."""
    found: list[Json] = []
    watch = cluster.api.watch(cluster.path("configmaps"), **query)
    async with asyncio.timeout(45), aclosing(watch):
        async for event in watch:
            if not event["object"].get("metadata", {}).get("name", "").endswith(NOT_OURS):
                found.append(event)
            if len(found) == count:
                break
    return found


def told(found: list[Json]) -> list[tuple[str, str]]:
    return [(each["type"], each["object"]["metadata"]["name"]) for each in found]


async def test_members_of_a_list_do_not_say_their_kind(cluster: Cluster) -> None:
    await put(cluster, "a", gang="1")
    answer = (await cluster.api.get(cluster.path("configmaps"), labelSelector="gang")).body
    assert (answer["kind"], answer["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in answer["items"][0]
    assert int(answer["metadata"]["resourceVersion"]) >= int(answer["items"][0]["metadata"]["resourceVersion"])


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("gang=1", ["a", "b"]),
        ("gang==1,role=worker", ["b"]),
        ("gang!=1,gang", ["c"]),
        ("gang in (1, 2),!role", ["c"]),
        ("gang notin (1),gang", ["c"]),
    ],
)
async def test_labels_select(cluster: Cluster, selector: str, names: list[str]) -> None:
    await put(cluster, "a", gang="1", role="master")
    await put(cluster, "b", gang="1", role="worker")
    await put(cluster, "c", gang="2")
    answer = (await cluster.api.get(cluster.path("configmaps"), labelSelector=selector)).body
    assert [each["metadata"]["name"] for each in answer["items"]] == names


async def test_fields_select_and_unknown_ones_are_refused(cluster: Cluster) -> None:
    for name in ("a", "b"):
        await made(cluster, "pods", pod(name))
    target = {"target": {"kind": "Node", "name": "node-a"}, "metadata": {"name": "b"}}
    await cluster.api.post(cluster.path("pods", "b", "binding"), target)
    for selector, names in (("spec.nodeName=", ["a"]), ("spec.nodeName!=", ["b"]), ("metadata.name=a", ["a"])):
        answer = (await cluster.api.get(cluster.path("pods"), fieldSelector=selector)).body
        assert [each["metadata"]["name"] for each in answer["items"]] == names
    refused = await cluster.api.get(cluster.path("pods"), fieldSelector="spec.hostname=a")
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert "field label not supported: spec.hostname" in refused.message
    await cluster.api.delete(cluster.path("pods", "b"), {"gracePeriodSeconds": 0})


async def test_pages_show_one_revision_whatever_happens_between_them(cluster: Cluster) -> None:
    for name in "abcde":
        await put(cluster, name, gang="1")
    query = {"labelSelector": "gang", "limit": 2}
    first = (await cluster.api.get(cluster.path("configmaps"), **query)).body
    await remove(cluster, "e")
    await put(cluster, "bb", gang="1")
    seen = [each["metadata"]["name"] for each in first["items"]]
    page = first
    while token := page["metadata"].get("continue"):
        page = (await cluster.api.get(cluster.path("configmaps"), **query, **{"continue": token})).body
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        seen += [each["metadata"]["name"] for each in page["items"]]
    assert seen == list("abcde")


async def test_a_list_of_what_is_at_hand_knows_no_pages(cluster: Cluster) -> None:
    for name in "abc":
        await put(cluster, name, gang="1")
    async with asyncio.timeout(45):
        items: list[Json] = []
        while len(items) != 3:  # it may be behind, but it comes whole
            query = {"labelSelector": "gang", "limit": 1, "resourceVersion": "0"}
            answer = (await cluster.api.get(cluster.path("configmaps"), **query)).body
            items = answer["items"]
            assert "continue" not in answer["metadata"]


async def test_a_token_that_is_none_is_refused(cluster: Cluster) -> None:
    answer = await cluster.api.get(cluster.path("configmaps"), **{"continue": "none", "limit": 1})
    assert (answer.status, answer.reason) == (400, "BadRequest")


async def test_a_watch_tells_what_happened_since_a_revision(cluster: Cluster) -> None:
    await put(cluster, "before")
    since = await revision(cluster)
    await put(cluster, "a")
    changed = await put(cluster, "a", "2")
    await remove(cluster, "a")
    found = await events(cluster, 3, resourceVersion=since)
    assert told(found) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert found[1]["object"] == changed
    assert found[1]["object"]["kind"] == "ConfigMap"
    revisions = [int(each["object"]["metadata"]["resourceVersion"]) for each in found]
    assert revisions == sorted(set(revisions)), "the end of an object has a revision of its own"


async def test_a_watch_goes_on_with_what_happens_later(cluster: Cluster) -> None:
    following = asyncio.create_task(events(cluster, 2, resourceVersion=await revision(cluster)))
    await put(cluster, "a")
    await remove(cluster, "a")
    assert told(await following) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_watch_without_a_revision_begins_with_what_there_is(cluster: Cluster) -> None:
    await put(cluster, "a")
    await put(cluster, "b")
    following = asyncio.create_task(events(cluster, 3))
    await asyncio.sleep(0.2)
    await put(cluster, "c")
    found = told(await following)
    assert sorted(found[:2]) == [("ADDED", "a"), ("ADDED", "b")]
    assert found[2] == ("ADDED", "c")


async def test_what_begins_or_ceases_to_match_comes_and_goes(cluster: Cluster) -> None:
    since = await revision(cluster)
    await put(cluster, "a", "1", state="on")
    await put(cluster, "a", "2", state="off")
    await put(cluster, "a", "3", state="on")
    await remove(cluster, "a")
    found = await events(cluster, 4, resourceVersion=since, labelSelector="state=on")
    assert told(found) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("DELETED", "a")]
    assert found[1]["object"]["data"] == {"key": "1"}, "it is shown as it was when it matched"
    assert int(found[1]["object"]["metadata"]["resourceVersion"]) < int(
        found[2]["object"]["metadata"]["resourceVersion"]
    )


async def test_a_watch_ends_when_its_time_is_over(cluster: Cluster) -> None:
    began = time.monotonic()
    query = {"resourceVersion": await revision(cluster), "timeoutSeconds": 1}
    async with asyncio.timeout(30):
        found = [each async for each in cluster.api.watch(cluster.path("configmaps"), **query)]
    assert [name for _, name in told(found) if not name.endswith(NOT_OURS)] == []
    assert time.monotonic() - began >= 0.9


async def test_a_bookmark_tells_the_revision_before_a_watch_ends(cluster: Cluster) -> None:
    since = await revision(cluster)
    await cluster.api.post(cluster.path("secrets"), {"metadata": {"name": "other"}})
    query = {"resourceVersion": since, "timeoutSeconds": 3, "allowWatchBookmarks": "true"}

    async def told() -> list[Json] | None:
        found = [each async for each in cluster.api.watch(cluster.path("configmaps"), **query)]
        return [each["object"] for each in found if each["type"] == "BOOKMARK"] or None

    # A server has two seconds for it, and one with much to do may let them pass.
    marks = await eventually(told, 45)
    assert marks[-1]["kind"] == "ConfigMap"
    assert int(marks[-1]["metadata"]["resourceVersion"]) >= int(since)


async def test_a_watch_can_begin_with_the_list_and_its_end(cluster: Cluster) -> None:
    await put(cluster, "a", gang="1")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    found = await events(cluster, 2, labelSelector="gang", **query)
    assert [each["type"] for each in found] == ["ADDED", "BOOKMARK"]
    assert found[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_forgotten_revision_is_an_error_event_of_410(cluster: Cluster) -> None:
    await put(cluster, "a")
    if cluster.server is not None:
        cluster.server.compact()
    found = await events(cluster, 1, resourceVersion="1")
    if cluster.server is None and found[0]["type"] == "ADDED":
        pytest.skip("the cluster is so young that it has forgotten nothing yet")
    assert found[0]["type"] == "ERROR"
    status = found[0]["object"]
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", 410)
    assert status["reason"] in {"Expired", "Gone"}
