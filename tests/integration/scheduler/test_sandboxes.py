"""What failed attempts leave, over HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from shared.jobs import JobState
from tests.support.http import calling
from tests.support.scheduling import Rig
from tests.support.services import eventually, running


async def test_what_a_failed_attempt_left_is_told_to_its_owner_and_its_place_to_admins(rig: Rig) -> None:
    service = await rig.scheduler()
    async with (
        running(service),
        calling(service.app, rig.token("root", admin=True)) as root,
        calling(service.app, rig.token("ada")) as ada,
        calling(service.app, rig.token("bob")) as bob,
    ):
        job = await rig.submit("echo clue > /tmp/clue; exit 3", keepFor="1h")
        await rig.until(job, JobState.DECIDING)

        async def look() -> dict | None:
            items = (await root.get(f"/v1/sandboxes/{job}")).json()["items"]
            return items[0] if items else None

        held = await eventually(look)
        assert held["attempt"] == 1
        assert (Path(held["path"]) / "replicas/worker-0/tmp/clue").read_text() == "clue\n"
        nodes = (await root.get("/v1/nodes")).json()["items"]
        assert all(node["status"]["free"]["cpu"] == node["spec"]["cpu"] for node in nodes)
        [seen] = (await ada.get(f"/v1/sandboxes/{job}")).json()["items"]
        assert seen == {"attempt": 1, "until": held["until"]}
        assert (await bob.get(f"/v1/sandboxes/{job}")).status_code == 404


async def test_a_command_runs_in_a_replicas_sandbox_for_its_owner_and_for_admins_alone(rig: Rig) -> None:
    service = await rig.scheduler()
    async with (
        running(service),
        calling(service.app, rig.token("root", admin=True)) as root,
        calling(service.app, rig.token("ada")) as ada,
        calling(service.app, rig.token("bob")) as bob,
    ):
        job = await rig.submit("while test ! -e /tmp/go; do sleep 0.05; done", replicas=2)
        await rig.until(job, JobState.RUNNING)
        path = f"/v1/sandboxes/{job}/exec"
        body = {"command": ["bash", "-c", "echo $TM_INDEX; echo no >&2; touch /tmp/go; exit 4"]}
        for user, index in ((ada, 0), (root, 1)):
            told = [event async for event in events(user, path, {**body, "index": index})]
            written = {(name, base64.b64decode(data["data"])) for name, data in told[:-1]}
            assert written == {("stdout", f"{index}\n".encode()), ("stderr", b"no\n")}
            assert told[-1] == ("exit", {"code": 4, "message": ""})
        slow = {"command": ["sleep", "60"], "timeout": 0.3}
        running_on = await rig.submit("sleep 60", name="on")
        await rig.until(running_on, JobState.RUNNING)
        [(name, data)] = [event async for event in events(ada, f"/v1/sandboxes/{running_on}/exec", slow)]
        assert (name, data["code"]) == ("exit", 124)
        assert (await bob.post(path, json=body)).status_code == 404
        assert (await ada.post(path, json={**body, "role": "boss"})).status_code == 409
        assert (await ada.post(path, json={"command": []})).status_code == 422
        assert (await ada.post(path, json={"command": ["a\0b"]})).status_code == 422
        await rig.until(job, JobState.SUCCEEDED)
        ended = await ada.post(path, json=body)
        assert ended.status_code == 409
        assert "has ended (Succeeded)" in ended.json()["detail"]
        waits = await rig.submit("true", name="waits", replicas=500)
        await rig.until(waits, JobState.QUEUED)
        queued = await ada.post(f"/v1/sandboxes/{waits}/exec", json=body)
        assert queued.status_code == 409
        assert "`trainmaster explain waits`" in queued.json()["detail"]


async def events(client: httpx.AsyncClient, path: str, body: dict) -> AsyncIterator[tuple[str, dict]]:
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    for block in answer.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != ":")
        if "event" in fields:
            yield fields["event"], json.loads(fields["data"])
