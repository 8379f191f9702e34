"""Evidence of a silent job: taken at once, kept under its digest, put on record; also over a kill of the watchdog."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from nats.aio.msg import Msg

from services.watchdog.bootstrap import WatchdogService, bootstrap
from services.watchdog.bundles import TAKE_WITHIN_S
from shared import events as ev
from shared.agent_evidence import (
    MachineLook,
    Process,
    ReplicaLook,
    StacksRequest,
    Thread,
    decode_request,
    encode_answer,
    stacks_subject,
)
from shared.bus import Bus
from shared.bus.blobs import Blobs
from shared.bus.streams import EVIDENCE_BUCKET
from shared.catalog import Cluster
from shared.clock import SystemClock
from tests.support import jobs
from tests.support.nats import NatsServer, registered
from tests.support.services import eventually, running
from tests.support.watchdog import TestJob, watchdog_settings

Start = Callable[[], "AsyncIterator[WatchdogService]"]
HANG = {"hangDetection": {"enabled": True, "silence": "60s"}}
MACHINE = "gpu-7"


@pytest.fixture
def watchdog(bus: Bus, nats_server: NatsServer, tmp_path: Path) -> Start:
    @asynccontextmanager
    async def start() -> AsyncIterator[WatchdogService]:
        settings = watchdog_settings(nats_server.url, tmp_path)
        async with running(await bootstrap(settings)) as service:
            await service.reacts.wait()
            yield service

    return start


async def machine(bus: Bus, *looks: ReplicaLook, silent: bool = False) -> list[StacksRequest]:
    """The node `n-1` is on a machine whose agent sees this; gives the list that what it was asked goes to."""
    asked: list[StacksRequest] = []
    fact = ev.NodeReported(cluster="main", node="n-1", cpu_millis=1, memory_bytes=1, labels={"machine": MACHINE})
    await bus.observe(jobs.event(fact, "n-1", 0), subject=f"tm.node.{Cluster.id_of('main')}.n-1.reported")

    async def on_request(message: Msg) -> None:
        asked.append(decode_request(message.data))
        if not silent:
            await message.respond(encode_answer(MachineLook(looks)))

    await bus.client.subscribe(stacks_subject(MACHINE), cb=on_request)
    await registered(bus.client)
    return asked


def waits(index: int, function: str) -> ReplicaLook:
    threads = (Thread("MainThread", (f"{function} (/code/train.py:{index})",)),)
    return ReplicaLook("worker", index, (Process(1, 0, "python train.py", "S", threads=threads),))


async def hung(bus: Bus, action: str = "stop") -> TestJob:
    """A running job whose silence was noticed just now."""
    job = await TestJob(bus, 2).run(**HANG)
    now = SystemClock().now()
    await job.tell(ev.IncidentRaised.model_validate({"rule": "hang", "line": "silent", "action": action, "at": now}))
    return job


async def evidence(job: TestJob) -> ev.EvidenceCollected:
    async def look() -> ev.EvidenceCollected | None:
        return next(iter((await job.now()).attempt.evidence), None)

    return await eventually(look)


async def kept(bus: Bus, taken: ev.EvidenceCollected, tmp_path: Path) -> dict[str, Any]:
    assert taken.digest is not None
    await Blobs(bus.js, EVIDENCE_BUCKET).fetch(taken.digest, tmp_path / "bundle.json")
    bundle: dict[str, Any] = json.loads((tmp_path / "bundle.json").read_text())
    return bundle


async def test_evidence_names_what_each_rank_does_and_its_last_lines(bus: Bus, watchdog: Start, tmp_path: Path) -> None:
    asked = await machine(bus, waits(0, "barrier"), waits(1, "load"))
    async with watchdog():
        job = await hung(bus)
        await job.write(b"step 41\nstep 42 of", index=1)
        taken = await evidence(job)
    assert asked == [StacksRequest(job.id, 1)]
    assert taken.rule == "hang"
    assert taken.problems == ()
    assert taken.summary == "1 of 2 ranks is in barrier (train.py:0); 1 of 2 ranks is in load (train.py:1)"
    bundle = await kept(bus, taken, tmp_path)
    assert (bundle["job"], bundle["attempt"], bundle["line"]) == (job.id, 1, "silent")
    assert [group["ranks"] for group in bundle["groups"]] == [["worker-0"], ["worker-1"]]
    first, second = bundle["replicas"]
    assert (first["node"], first["machine"], first["problem"]) == ("n-1", MACHINE, "")
    assert second["processes"][0]["threads"][0]["frames"] == ["load (/code/train.py:1)"]
    assert second["processes"][0]["cpuPercent"] == 0


async def test_a_machine_that_does_not_answer_is_a_problem_and_keeps_nothing_else_back(
    bus: Bus, watchdog: Start, tmp_path: Path
) -> None:
    async with watchdog():
        taken = await evidence(await hung(bus))
    assert taken.problems == ("machine n-1: its node agent did not answer",)
    bundle = await kept(bus, taken, tmp_path)
    assert bundle["replicas"][0]["problem"] == "its node agent did not answer"


async def test_a_watchdog_that_was_ended_meanwhile_takes_it_when_it_is_back(bus: Bus, watchdog: Start) -> None:
    asked = await machine(bus, silent=True)
    async with watchdog():
        job = await hung(bus)

        async def is_asked() -> bool | None:
            return bool(asked) or None

        await eventually(is_asked)
    assert (await job.now()).attempt.evidence == ()
    await bus.close()
    again = await Bus.connect(bus.options)
    job._bus = again
    async with watchdog():
        taken = await evidence(job)
    await again.close()
    assert taken.rule == "hang"


async def test_an_incident_whose_time_is_over_gets_no_evidence_any_more(bus: Bus, watchdog: Start) -> None:
    job = await TestJob(bus, 2).run(**HANG)
    at = SystemClock().now() - timedelta(seconds=TAKE_WITHIN_S + 1)
    await job.tell(ev.IncidentRaised(rule="hang", line="old", at=at))
    later = await hung(bus)
    async with watchdog():
        await evidence(later)
    assert (await job.now()).attempt.evidence == ()
