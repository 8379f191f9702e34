"""Quotas of projects with the real scheduler: who is held back, what is told, and that an end lets the next start."""

from __future__ import annotations

from shared import events as ev
from shared.catalog import CatalogStore
from shared.jobs import JobState
from tests.support.catalog import project
from tests.support.http import calling
from tests.support.scheduling import Rig
from tests.support.services import eventually, running


async def test_a_job_over_the_quota_waits_says_so_in_numbers_and_starts_when_there_is_room(rig: Rig) -> None:
    kept = project("default", quotas={"runningReplicas": 2})
    await CatalogStore(rig.bus).put(kept, expected=0)
    service = await rig.scheduler()
    async with running(service), calling(service.app, rig.token("ada")) as ada:
        first = await rig.submit("sleep 60", replicas=2, name="first")
        await rig.until(first, JobState.RUNNING)
        second = await rig.submit("true", name="second")

        async def held_back() -> dict | None:
            answer = (await ada.get(f"/v1/queue/{second}")).json()
            return answer if answer.get("blockers") else None

        told = await eventually(held_back)
        [blocker] = told["blockers"]
        assert (blocker["resource"], blocker["needed"], blocker["available"], blocker["total"]) == (
            "quota-replicas",
            1,
            0,
            2,
        )
        assert "is held back by the quota of its project" in told["summary"]
        await rig.append(ev.StopRequested(by="ada"), first)
        await rig.until(second, JobState.SUCCEEDED)
