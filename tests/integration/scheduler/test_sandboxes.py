"""What failed attempts leave, over HTTP."""

from __future__ import annotations

from pathlib import Path

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
