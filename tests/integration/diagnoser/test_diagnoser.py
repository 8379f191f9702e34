"""The diagnoser against a real JetStream, with agents that answer as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nats.aio.msg import Msg

from services.diagnoser.bootstrap import bootstrap
from services.diagnoser.settings import DiagnoserSettings
from shared import events as ev
from shared.agent_wire import Measurement, decode_probe_request, encode_probe_answer, probe_subject
from shared.bus import Bus
from shared.bus.history import recorded_of
from shared.bus.streams import NODES
from shared.catalog import Cluster
from shared.clock import SystemClock
from shared.ids import new_job_id
from shared.jobs import Attempt
from tests.support import jobs
from tests.support.nats import NatsServer
from tests.support.probes import measurement
from tests.support.services import eventually, running

Answer = Callable[[tuple[str, ...]], Mapping[str, Measurement]]


def now_ms() -> int:
    return int(SystemClock().now().timestamp() * 1000)


def all_well(nodes: tuple[str, ...]) -> dict[str, Measurement]:
    return {node: measurement(unix_ms=now_ms()) for node in nodes}


async def agent(bus: Bus, machine: str, answer: Answer) -> list[tuple[str, ...]]:
    """An agent of that machine; gives the list that what it was asked goes to."""
    asked: list[tuple[str, ...]] = []

    async def on_request(message: Msg) -> None:
        asked.append(decode_probe_request(message.data))
        await message.respond(encode_probe_answer(answer(asked[-1])))

    await bus.client.subscribe(probe_subject(machine), cb=on_request)
    await bus.client.flush()
    return asked


async def diagnosing(bus: Bus) -> str:
    """A job that waits for the diagnosis of its nodes."""
    job = new_job_id()
    at = await bus.append(jobs.event(jobs.submitted(), job), expected=0)
    placed = jobs.placed().model_copy(update={"diagnosing": True})
    await bus.append(jobs.event(placed, job), expected=at)
    return job


async def request(bus: Bus, job: str, machines: Mapping[str, str]) -> None:
    await bus.observe(jobs.event(ev.DiagnosisRequested(nodes=tuple(machines), machines=dict(machines)), job))


async def outcome(bus: Bus, job: str) -> ev.DiagnosisFinished:
    async def look() -> ev.DiagnosisFinished | None:
        return (await attempt(bus, job)).diagnosis

    return await eventually(look)


async def attempt(bus: Bus, job: str) -> Attempt:
    found = await bus.load_job(job)
    assert found is not None
    return found.attempt


def settings(server: NatsServer, **changes: object) -> DiagnoserSettings:
    return DiagnoserSettings.model_validate({"nats_url": server.url, "nats_user": "", **changes})


async def test_nodes_of_one_machine_are_asked_for_together_and_reported_each(bus: Bus, nats_server: NatsServer) -> None:
    first, second = await agent(bus, "m1", all_well), await agent(bus, "m2", all_well)
    job = await diagnosing(bus)
    async with running(await bootstrap(settings(nats_server))):
        await request(bus, job, {"n-1": "m1", "n-2": "m1", "n-3": "m2"})
        found = await outcome(bus, job)
    assert (first, second) == ([("n-1", "n-2")], [("n-3",)])
    assert found.passed
    assert [finding.node for finding in found.findings] == ["n-1", "n-2", "n-3"]


async def test_a_node_that_computes_wrong_and_one_that_is_silent_are_bad(bus: Bus, nats_server: NatsServer) -> None:
    await agent(bus, "m1", lambda _nodes: {"n-1": measurement(unix_ms=now_ms(), checksums={"bad": (0, 1)})})
    job = await diagnosing(bus)
    async with running(await bootstrap(settings(nats_server, probe_deadline_s=1))):
        await request(bus, job, {"n-1": "m1", "n-2": "m1", "n-3": "nowhere"})
        found = await outcome(bus, job)
    assert (found.passed, found.bad_nodes) == (False, ("n-1", "n-2", "n-3"))
    assert "n-1: CPU 0, 1 computed wrong" in found.message
    assert "n-3: its agent gave no measurement in time" in found.message


async def test_an_agent_that_is_away_for_a_moment_is_asked_again(bus: Bus, nats_server: NatsServer) -> None:
    job = await diagnosing(bus)
    async with running(await bootstrap(settings(nats_server))):
        await request(bus, job, {"n-1": "late"})
        assert (await attempt(bus, job)).diagnosis is None
        await agent(bus, "late", all_well)
        assert (await outcome(bus, job)).passed


async def test_a_request_that_was_not_answered_before_a_crash_is_answered_after_it(
    bus: Bus, nats_server: NatsServer
) -> None:
    job = await diagnosing(bus)
    await request(bus, job, {"n-1": "m3"})
    asked = await agent(bus, "m3", all_well)
    for _ in range(2):
        async with running(await bootstrap(settings(nats_server))):
            assert (await outcome(bus, job)).passed
    assert asked == [("n-1",)]


async def test_a_job_that_was_stopped_gets_no_outcome(bus: Bus, nats_server: NatsServer) -> None:
    job = await diagnosing(bus)
    found = await bus.load_job(job)
    assert found is not None
    await bus.append(jobs.event(ev.StopRequested(by="ada"), job), expected=found.sequence)
    other = await diagnosing(bus)
    asked = await agent(bus, "m4", all_well)
    await request(bus, job, {"n-1": "m4"})
    await request(bus, other, {"n-2": "m4"})
    async with running(await bootstrap(settings(nats_server))):
        await outcome(bus, other)
    assert asked == [("n-2",)]
    assert (await attempt(bus, job)).diagnosis is None


async def judgements(bus: Bus) -> list[tuple[str, str]]:
    messages = await bus.history.messages(NODES, "tm.node.*.*.judged")
    judged = [recorded_of(message).event.data for message in messages]
    return [(one.node, one.health) for one in judged if isinstance(one, ev.NodeJudged)]


async def test_a_node_that_fails_two_jobs_is_judged_bad_until_an_admin_restores_it(
    bus: Bus, nats_server: NatsServer
) -> None:
    async def look_at(job: str) -> None:
        await request(bus, job, {"n-1": "m5", "n-2": "m5"})
        await outcome(bus, job)

    wrong = measurement(unix_ms=now_ms(), checksums={"bad": (0,)})
    await agent(bus, "m5", lambda _nodes: {"n-1": wrong, "n-2": measurement(unix_ms=now_ms())})
    async with running(await bootstrap(settings(nats_server))):
        await look_at(await diagnosing(bus))
        assert await judgements(bus) == [("n-1", "suspect")]
        await look_at(await diagnosing(bus))
        assert await judgements(bus) == [("n-1", "suspect"), ("n-1", "bad")]
        mark = ev.NodeMarked(cluster="main", node="n-1", wish="Ready", by="root", reason="a new CPU")
        event = jobs.event(mark, "n-1", attempt=0)
        await bus.observe(event, subject=f"tm.node.{Cluster.id_of('main')}.n-1.marked")
        await look_at(await diagnosing(bus))
        assert (await judgements(bus))[2:] == [("n-1", "suspect")]
