"""Checks outlive the diagnoser that runs them, run once among several, and make room for jobs at once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import pytest
from nats.aio.msg import Msg

from services.diagnoser.adapters.leases import Leases
from services.diagnoser.bootstrap import bootstrap
from shared import events as ev
from shared.agent_wire import decode_probe_request, encode_probe_answer, probe_subject
from shared.bus import Bus
from shared.bus.history import recorded_of
from shared.bus.streams import CHECKS, DIAGNOSER_REQUESTS, JOBS, NODES
from shared.catalog import Cluster
from shared.clock import ManualClock, SystemClock
from shared.diagnosis_wire import cancel_subject, decode_cancel, decode_test_request, encode_test_answer, worker_subject
from shared.errors import UnavailableError
from tests.support import jobs
from tests.support.diagnosers import all_well, calling, diagnosing, outcome, reported, request, settings
from tests.support.nats import NatsServer, registered
from tests.support.probes import answer_of
from tests.support.services import eventually, running


@dataclass
class Agent:
    """An agent whose tests are answered once `open` is set; it notes what it was asked."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    tested: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    async def serve(self, bus: Bus, machine: str) -> None:
        async def on_probe(message: Msg) -> None:
            await message.respond(encode_probe_answer(all_well(decode_probe_request(message.data))))

        async def on_cancel(message: Msg) -> None:
            self.cancelled.append(decode_cancel(message.data))
            await message.respond(b"")

        await bus.client.subscribe(probe_subject(machine), cb=on_probe)
        await bus.client.subscribe(worker_subject(machine), cb=self._on_test)
        await bus.client.subscribe(cancel_subject(machine), cb=on_cancel)
        await registered(bus.client)

    async def _on_test(self, message: Msg) -> None:
        asked = decode_test_request(message.data)
        self.tested.append(asked.node)
        self.sessions.append(asked.session)
        await self.open.wait()
        await message.respond(encode_test_answer(answer_of(asked)))

    async def is_testing(self) -> None:
        async def look() -> bool | None:
            return bool(self.tested) or None

        await eventually(look)


async def machine(bus: Bus, node: str) -> Agent:
    """A node that is a machine of its own, with its agent."""
    agent = Agent()
    await agent.serve(bus, f"m-{node}")
    await reported(bus, node, f"m-{node}")
    return agent


async def ask(client: httpx.AsyncClient, *nodes: str) -> str:
    answer = await client.post("/v1/diagnoses", json={"nodes": list(nodes)})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def until_ended(client: httpx.AsyncClient, check: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        answer = await client.get(f"/v1/diagnoses/{check}")
        if answer.status_code == 404:  # put on record a moment ago
            return None
        document = answer.json()
        return document if document["state"] not in ("queued", "running") else None

    return await eventually(look)


async def told(bus: Bus, check: str) -> list[str]:
    messages = await bus.history.messages(CHECKS, f"tm.check.{check}.>")
    return [recorded_of(message).event.data.SUFFIX for message in messages]


async def place(bus: Bus, node: str) -> None:
    """A job gets the node."""
    job = jobs.new_job_id()
    at = await bus.append(jobs.event(jobs.submitted(), job), expected=0)
    await bus.append(jobs.event(jobs.placed(node=node), job), expected=at)


async def test_a_check_goes_on_with_the_next_diagnoser(bus: Bus, nats_server: NatsServer) -> None:
    agent = await machine(bus, "n-1")
    async with calling(nats_server) as client:
        check = await ask(client, "n-1")
        await agent.is_testing()
    agent.open.set()
    async with calling(nats_server) as client:
        report = await until_ended(client, check)
    assert (report["state"], [node["verdict"] for node in report["nodes"]]) == ("finished", ["green"])
    assert await told(bus, check) == ["requested", "started", "started", "ended"]
    assert agent.cancelled[0] == agent.sessions[0]
    assert len(set(agent.sessions)) == 2


async def test_of_two_diagnosers_one_runs_what_is_asked_for_and_both_tell(bus: Bus, nats_server: NatsServer) -> None:
    agent = await machine(bus, "n-2")
    agent.open.set()
    other_home = nats_server.store / "diagnoser-2"
    job = await diagnosing(bus)
    async with calling(nats_server) as one, calling(nats_server, home=other_home) as other:
        check = await ask(one, "n-2")
        assert (await until_ended(other, check))["state"] == "finished"
        await request(bus, job, {"n-2": "m-n-2"})
        assert (await outcome(bus, job)).passed
    assert await told(bus, check) == ["requested", "started", "ended"]
    told_of_job = [recorded.event.data for recorded in await bus.history.job_events(job)]
    assert sum(isinstance(data, ev.DiagnosisFinished) for data in told_of_job) == 1


async def test_a_second_check_of_a_machine_waits_for_the_first(bus: Bus, nats_server: NatsServer) -> None:
    agent = await machine(bus, "n-3")
    async with calling(nats_server) as client:
        first = await ask(client, "n-3")
        await agent.is_testing()
        second = await ask(client, "n-3")
        assert (await client.get(f"/v1/diagnoses/{second}")).json()["state"] == "queued"
        agent.open.set()
        for check in (first, second):
            assert (await until_ended(client, check))["state"] == "finished"


async def test_checks_of_one_machine_have_their_turns_in_the_order_in_which_they_were_asked_for(
    bus: Bus, nats_server: NatsServer
) -> None:
    agent = await machine(bus, "n-13")
    await reported(bus, "n-14", "m-n-13")
    async with calling(nats_server) as client:
        checks = [await ask(client, node) for node in ("n-13", "n-14", "n-13")]
        await agent.is_testing()
        agent.open.set()
        for check in checks:
            assert (await until_ended(client, check))["state"] == "finished"
    assert list(dict.fromkeys(session.rpartition("-")[0] for session in agent.sessions)) == checks
    for before, after in pairwise(checks):
        assert await sequence(bus, before, "ended") < await sequence(bus, after, "started")


async def sequence(bus: Bus, check: str, event: str) -> int:
    return await bus.history.last_sequence(f"tm.check.{check}.{event}", stream=CHECKS)


async def test_a_check_that_runs_or_waits_is_cancelled_and_the_next_has_its_turn(
    bus: Bus, nats_server: NatsServer
) -> None:
    agent = await machine(bus, "n-15")
    async with calling(nats_server) as client:
        running_one, waiting, last = [await ask(client, "n-15") for _ in range(3)]
        await agent.is_testing()
        for check in (waiting, running_one):
            cancelled = (await client.delete(f"/v1/diagnoses/{check}")).json()
            assert (cancelled["state"], cancelled["message"]) == ("cancelled", "cancelled by ada")
        agent.open.set()
        assert (await until_ended(client, last))["state"] == "finished"
        again = await client.delete(f"/v1/diagnoses/{last}")
        unknown = await client.delete("/v1/diagnoses/dg-none")
    assert (again.status_code, unknown.status_code) == (409, 404)
    assert await told(bus, waiting) == ["requested", "ended"]
    assert await told(bus, running_one) == ["requested", "started", "ended"]
    assert agent.cancelled[0] == agent.sessions[0]


async def test_a_check_begins_anew_without_a_node_that_a_job_got(bus: Bus, nats_server: NatsServer) -> None:
    taken, idle = await machine(bus, "n-4"), await machine(bus, "n-5")
    idle.open.set()
    async with calling(nats_server) as client:
        check = await ask(client, "n-4", "n-5")
        await taken.is_testing()
        await place(bus, "n-4")
        report = await until_ended(client, check)
    assert (report["state"], report["inUse"]) == ("finished", ["n-4"])
    assert {node["node"]: node["tested"] for node in report["nodes"]} == {"n-4": False, "n-5": True}
    assert taken.cancelled[0] == taken.sessions[0]


async def test_a_check_of_idle_nodes_is_over_as_soon_as_a_job_gets_one(bus: Bus, nats_server: NatsServer) -> None:
    agent = await machine(bus, "n-6")
    wanted = ev.CheckRequested(check="dg-idle", cluster="main", nodes=("n-6",), by="schedule", idle_only=True)
    later = wanted.model_copy(update={"check": "dg-later"})
    async with calling(nats_server) as client:
        await bus.observe(jobs.event(wanted, "dg-idle", attempt=0), subject="tm.check.dg-idle.requested")
        await agent.is_testing()
        await place(bus, "n-6")
        report = await until_ended(client, "dg-idle")
        await bus.observe(jobs.event(later, "dg-later", attempt=0), subject="tm.check.dg-later.requested")
        assert (await until_ended(client, "dg-later"))["state"] == "cancelled"
    assert (report["state"], report["message"]) == ("cancelled", "a job got one of its nodes")
    assert agent.cancelled == agent.sessions[:1]
    assert await told(bus, "dg-later") == ["requested", "ended"]


async def test_a_check_of_idle_nodes_is_over_when_a_job_gets_another_share_of_the_machine(
    bus: Bus, nats_server: NatsServer
) -> None:
    agent = await machine(bus, "n-10")
    await reported(bus, "n-11", "m-n-10")
    wanted = ev.CheckRequested(check="dg-share", cluster="main", nodes=("n-10",), by="schedule", idle_only=True)
    async with calling(nats_server) as client:
        await bus.observe(jobs.event(wanted, "dg-share", attempt=0), subject="tm.check.dg-share.requested")
        await agent.is_testing()
        await place(bus, "n-11")
        assert (await until_ended(client, "dg-share"))["state"] == "cancelled"


async def test_a_stop_of_the_job_ends_its_workers_in_the_middle_of_a_test(bus: Bus, nats_server: NatsServer) -> None:
    agent = await machine(bus, "n-7")
    job = await diagnosing(bus)
    async with running(await bootstrap(settings(nats_server))):
        await request(bus, job, {"n-7": "m-n-7"})
        await agent.is_testing()
        found = await bus.load_job(job)
        assert found is not None
        await bus.append(jobs.event(ev.StopRequested(by="ada"), job), expected=found.sequence)

        async def look() -> bool | None:
            return agent.cancelled == agent.sessions or None

        await eventually(look)
    assert len(agent.sessions) == 1


async def test_leases_go_on_in_the_name_of_the_same_check_and_a_halted_holder_notices(bus: Bus) -> None:
    clock = ManualClock()
    halted, next_one = Leases(bus, clock), Leases(bus, ManualClock())
    async with halted.held(["m-1", "m-2"], "dg-a") as lost:
        with pytest.raises(UnavailableError, match="m-2 is being tested by dg-a"):
            async with next_one.held(["m-2", "m-3"], "dg-b"):
                pass
        async with next_one.held(["m-1", "m-2"], "dg-a") as lost_too:
            await asyncio.sleep(0)  # the renewal begins to wait
            await clock.advance(5)
            await asyncio.wait_for(lost.wait(), 45)
            assert not lost_too.is_set()
    async with next_one.held(["m-1", "m-2", "m-3"], "dg-b"):
        pass


async def test_one_instance_alone_diagnoses_the_nodes_of_an_attempt(bus: Bus, nats_server: NatsServer) -> None:
    agent = await machine(bus, "n-16")
    agent.open.set()
    job = await diagnosing(bus)
    held = Leases(bus, SystemClock()).held([f"{job}-1"], "another instance")
    async with running(await bootstrap(settings(nats_server))):
        async with held:
            await request(bus, job, {"n-16": "m-n-16"})

            async def is_put_off() -> bool | None:
                info = await bus.js.consumer_info(JOBS, DIAGNOSER_REQUESTS.durable)
                return bool(info.num_redelivered) or None

            await eventually(is_put_off)
            assert agent.sessions == []
        assert (await outcome(bus, job)).passed
    assert len(set(agent.sessions)) == 1


async def test_a_bad_node_that_an_admin_wants_back_is_tested_at_once_and_judged_good(
    bus: Bus, nats_server: NatsServer
) -> None:
    agent = await machine(bus, "n-8")
    agent.open.set()
    bad = ev.NodeJudged(cluster="main", node="n-8", health="bad", reason="a wrong checksum")
    back = ev.NodeRecalled(cluster="main", node="n-8", by="root", reason="a new fan")
    subject = f"tm.node.{Cluster.id_of('main')}.n-8"
    async with calling(nats_server):
        for payload in (bad, back):
            await bus.observe(jobs.event(payload, "n-8", attempt=0), subject=f"{subject}.{payload.SUFFIX}")

        async def look() -> bool | None:
            return (await judged(bus, "n-8")).health == "good" or None

        assert await eventually(look)


async def judged(bus: Bus, node: str) -> ev.NodeJudged:
    async def look() -> ev.NodeJudged | None:
        last = await bus.history.last_event(f"tm.node.*.{node}.judged", stream=NODES)
        return last.event.data if last is not None and isinstance(last.event.data, ev.NodeJudged) else None

    return await eventually(look)


async def test_a_node_that_a_job_failed_on_is_told_to_be_suspect_by_all_instances_once(
    bus: Bus, nats_server: NatsServer
) -> None:
    await machine(bus, "n-9")
    failed = ev.NodeSuspected(cluster="main", node="n-9", job="tj-a", attempt=1, rule="cuda-ecc", line="ECC error")
    subject = f"tm.node.{Cluster.id_of('main')}.n-9.suspected"
    async with calling(nats_server), calling(nats_server, home=nats_server.store / "diagnoser-2"):
        event = ev.Event.of(failed, job="n-9", attempt=1, time=SystemClock().now(), owner="u", project="p", part="tj-a")
        await bus.observe(event, subject=subject)
        found = await judged(bus, "n-9")
    assert (found.health, found.job) == ("suspect", "tj-a")
    assert found.reason == "a job failed on it (cuda-ecc): ECC error"
    assert len(await bus.history.messages(NODES, "tm.node.*.n-9.judged")) == 1


async def test_a_check_of_an_instance_that_is_killed_is_run_by_another(bus: Bus, nats_server: NatsServer) -> None:
    agent = await machine(bus, "n-12")
    wanted = ev.CheckRequested(check="dg-killed", cluster="main", nodes=("n-12",), by="root")
    keys = settings(nats_server).jwks_file
    environment = {
        "TRAINMASTER_NATS_URL": nats_server.url,
        "TRAINMASTER_NATS_USER": "",
        "TRAINMASTER_HOME": str(nats_server.store / "killed"),
        "TRAINMASTER_JWKS_FILE": str(keys),
    }
    victim = subprocess.Popen([sys.executable, "-m", "services.diagnoser"], env={**os.environ, **environment})
    try:
        await bus.observe(jobs.event(wanted, "dg-killed", attempt=0), subject="tm.check.dg-killed.requested")
        await agent.is_testing()
    finally:
        victim.kill()
        victim.wait()
    agent.open.set()
    async with calling(nats_server) as client:

        async def look() -> bool | None:
            found = await client.get("/v1/diagnoses/dg-killed")
            return found.json().get("state") == "finished" or None

        # What a killed service had in hand comes again after 15 seconds.
        assert await eventually(look, 60)
    assert await told(bus, "dg-killed") == ["requested", "started", "started", "ended"]
