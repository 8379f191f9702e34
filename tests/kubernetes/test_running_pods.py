"""Pods whose commands really run: as processes on simulated nodes, and on real nodes where the cluster has them.

Both have to show the same phases, exit codes, reasons, logs, files and variables.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.kubernetes.clusters import NO_NODE, image_of_tests
from tests.support.kubernetes.objects import config_map, gone, made
from tests.support.kubernetes.places import IMAGE, Place, a_place, kinds_of_places


@pytest.fixture(params=kinds_of_places())
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with a_place(request.param, tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("exit 0", 0, "Completed"),
        ("exit 3", 3, "Error"),
        ("bash -c 'kill -KILL $$$$'; exit $?", 137, "Error"),
    ],
)
async def test_a_command_ends_with_its_code(place: Place, script: str, code: int, reason: str) -> None:
    await place.start("a", script)
    ended = await place.ended("a")
    assert (ended["exitCode"], ended["reason"]) == (code, reason)


async def test_what_it_says_is_in_its_log(place: Place) -> None:
    await place.start(
        "a", "echo out; sleep 0.2; echo err >&2; sleep 0.2; head -c 40000 /dev/zero | tr '\\0' x; echo; printf end"
    )
    await place.ended("a")
    assert await place.log("a") == "out\nerr\n" + "x" * 40000 + "\nend"


async def test_a_term_reaches_the_command(place: Place) -> None:
    await place.start("a", "trap 'exit 7' TERM; echo up; while true; do sleep 0.1; done")
    await place.says("a", "up")
    assert (await place.end_of("a", 20))["exitCode"] == 7


async def test_a_command_that_has_no_ear_for_term_is_killed_after_its_grace(place: Place) -> None:
    await place.start("a", "echo up; while true; do sleep 0.1; done")
    await place.says("a", "up")
    assert (await place.end_of("a", 1))["exitCode"] == 137


async def test_what_a_command_left_running_ends_with_it(place: Place) -> None:
    await place.start("a", "(trap '' TERM; sleep 1000) & echo done")
    assert (await place.ended("a"))["exitCode"] == 0


async def test_init_containers_prepare_volumes(place: Place) -> None:
    mount = [{"name": "code", "mountPath": "/code"}]
    init = {"name": "code", "image": IMAGE, "command": ["/bin/sh", "-c", "echo text > /code/file"]}
    await place.start(
        "a",
        "cat file",
        volumes=[{"name": "code", "emptyDir": {}}],
        initContainers=[{**init, "volumeMounts": mount}],
        container={"volumeMounts": mount, "workingDir": "/code"},
    )
    await place.ended("a")
    assert await place.log("a") == "text\n"


async def test_a_failed_init_container_ends_the_pod(place: Place) -> None:
    init = [
        {"name": each, "image": IMAGE, "command": ["/bin/sh", "-c", f"exit {each[-1]}"]} for each in ("i0", "i5", "i1")
    ]
    await place.start("a", "true", initContainers=init)
    status = await place.status("a", "Failed")
    states = [each["state"] for each in status["initContainerStatuses"]]
    assert [each.get("terminated", {}).get("exitCode") for each in states] == [0, 5, None]
    assert "waiting" in status["containerStatuses"][0]["state"]


async def test_variables_and_files_come_from_config_maps_secrets_and_the_pod(place: Place) -> None:
    await made(place.cluster, "configmaps", config_map("words"))
    await made(place.cluster, "secrets", {"metadata": {"name": "hidden"}, "stringData": {"TOKEN": "t0"}})
    sources = [
        {"configMap": {"name": "words", "items": [{"key": "key", "path": "some/file"}]}},
        {"secret": {"name": "hidden"}},
    ]
    await place.start(
        "a",
        'echo "$A $B $TOKEN $NAME $LABEL $(A) \\$$(A)"; cat /etc/trainmaster/some/file /etc/trainmaster/TOKEN',
        volumes=[{"name": "files", "projected": {"sources": sources}}],
        container={
            "volumeMounts": [{"name": "files", "mountPath": "/etc/trainmaster", "readOnly": True}],
            "envFrom": [{"secretRef": {"name": "hidden"}}],
            "env": [
                {"name": "A", "value": "a"},
                {"name": "B", "value": "$(A)$$(A)$(NONE)"},
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
            ],
        },
    )
    await place.ended("a")
    assert await place.log("a") == "a a$(A)$(NONE) t0 a a a $(A)\nvaluet0"


async def test_pods_of_a_headless_service_find_each_other(place: Place) -> None:
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"a": "b"}}
    await made(place.cluster, "services", {"metadata": {"name": "gang"}, "spec": spec})
    serve = "exec python3 -m http.server 18765 --bind 0.0.0.0 --directory /"
    await place.start("b", serve, hostname="gang-b", subdomain="gang")
    ask = "import urllib.request as r; print(r.urlopen('http://gang-b.gang:18765/').status)"
    retry = f'until python3 -c "{ask}" 2>/dev/null; do sleep 0.2; done; hostname'
    await place.start("c", retry, hostname="gang-c", subdomain="gang")
    assert (await place.ended("c"))["exitCode"] == 0
    assert await place.log("c") == "200\ngang-c\n"
    await place.cluster.api.delete(place.cluster.path("pods", "b"), {"gracePeriodSeconds": 0})
    await gone(place.cluster, "pods", "b")


@pytest.mark.skipif(not image_of_tests(), reason=NO_NODE)
async def test_a_command_out_of_memory_is_told_as_such_by_a_real_node(tmp_path: Path) -> None:
    async with a_place("real node", tmp_path) as place:
        limits = {"resources": {"limits": {"cpu": "100m", "memory": "32Mi"}}}
        await place.start("a", "exec python3 -c 'x = bytearray(256 << 20); x[::4096] = x[::4096]'", container=limits)
        ended = await place.ended("a")
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
