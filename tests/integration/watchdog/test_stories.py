"""Rules are tried on logs that are sent, and ended jobs tell their story, to whoever may see them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from services.watchdog.bootstrap import WatchdogService, bootstrap
from shared import events as ev
from shared.bus import Bus
from tests.support.nats import NatsServer
from tests.support.services import eventually, running
from tests.support.watchdog import TestJob, token, watchdog_settings

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.fixture
async def watchdog(bus: Bus, nats_server: NatsServer, tmp_path: Path) -> AsyncIterator[WatchdogService]:
    async with running(await bootstrap(watchdog_settings(nats_server.url, tmp_path))) as service:
        await service.reacts.wait()
        yield service


def client(service: WatchdogService, home: Path, user: str = "ada") -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token(home, user)}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(service.app), base_url="http://watchdog", headers=headers)


async def test_rules_are_tried_on_logs_that_are_sent(watchdog: WatchdogService, tmp_path: Path) -> None:
    async with client(watchdog, tmp_path) as http:
        answer = await http.post("/v1/rules/test", json={"logs": [{"text": f"step 1\n{OOM}\n"}], "exitCode": 1})
        document = answer.json()
        message = {"policy": "Advanced", "errorMessages": [["step 1"]]}
        other = await http.post("/v1/rules/test", json={"logs": [{"text": "step 1"}], "failure": message})
        wrong = await http.post("/v1/rules/test", json={"logs": [], "exitCode": 0})
    assert answer.status_code == 200, answer.text
    assert [(match["rule"], match["number"], match["class"]) for match in document["matches"]] == [
        ("cuda-oom", 2, "user")
    ]
    assert (document["retry"], document["cause"]["rule"], document["cause"]["class"]) == (False, "cuda-oom", "user")
    assert (other.json()["retry"], other.json()["matches"][0]["rule"]) == (True, "message/1")
    assert wrong.status_code == 422
    assert {error["pointer"] for error in wrong.json()["errors"]} == {"/logs", "/exitCode"}


async def test_an_ended_job_tells_its_story_to_whoever_may_see_it(
    bus: Bus, watchdog: WatchdogService, tmp_path: Path
) -> None:
    job = await TestJob(bus).run()
    await job.write(f"{OOM}\n".encode(), end=True)
    await job.fail(1)
    await job.decision()
    job._sequence = (await job.now()).sequence
    await job.tell(ev.Failed(reason="failed"), at_s=2)
    async with client(watchdog, tmp_path) as owner, client(watchdog, tmp_path, "eve") as stranger:

        async def told() -> list[str] | None:
            return (await owner.get(f"/v1/incidents/stories/{job.id}")).json()["sentences"] or None

        sentences = await eventually(told)
        assert (await stranger.get(f"/v1/incidents/stories/{job.id}")).status_code == 404
    assert sentences[0].startswith("demo failed at")
    assert any("root cause is cuda-oom (user) in worker-0" in sentence for sentence in sentences)
    assert sentences[-1].startswith("What to do: The GPU's memory is full.")
