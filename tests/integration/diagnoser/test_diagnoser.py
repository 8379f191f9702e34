"""The diagnoser against a real JetStream, with agents that answer as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nats.aio.msg import Msg

from services.diagnoser.bootstrap import bootstrap
from shared import events as ev
from shared.agent_wire import Measurement, decode_probe_request, encode_probe_answer, probe_subject
from shared.bus import Bus
from shared.bus.history import recorded_of
from shared.bus.streams import NODES
from shared.catalog import CatalogStore, Cluster
from shared.clock import SystemClock
from shared.diagnosis_wire import (
    TestAnswer,
    cancel_subject,
    decode_test_request,
    encode_test_answer,
    worker_subject,
)
from tests.support import jobs
from tests.support.catalog import instance_type
from tests.support.diagnosers import (
    all_well,
    attempt,
    calling,
    diagnosing,
    now_ms,
    outcome,
    reported,
    request,
    settings,
)
from tests.support.nats import NatsServer, registered
from tests.support.probes import answer_of, measurement
from tests.support.services import eventually, running

Answer = Callable[[tuple[str, ...]], Mapping[str, Measurement]]


async def agent(bus: Bus, machine: str, answer: Answer) -> list[tuple[str, ...]]:
    """An agent of that machine; gives the list that what it was asked goes to."""
    asked: list[tuple[str, ...]] = []

    async def on_request(message: Msg) -> None:
        asked.append(decode_probe_request(message.data))
        await message.respond(encode_probe_answer(answer(asked[-1])))

    async def on_test(message: Msg) -> None:
        await message.respond(encode_test_answer(answer_of(decode_test_request(message.data))))

    async def on_cancel(message: Msg) -> None:
        await message.respond(b"")

    await bus.client.subscribe(probe_subject(machine), cb=on_request)
    await bus.client.subscribe(worker_subject(machine), cb=on_test)
    await bus.client.subscribe(cancel_subject(machine), cb=on_cancel)
    await registered(bus.client)
    return asked


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

    def full(_nodes: tuple[str, ...]) -> dict[str, Measurement]:
        sound = measurement(unix_ms=now_ms())
        return {"n-1": replace(sound, disk_free_bytes=0), "n-2": sound}

    await agent(bus, "m5", full)
    async with running(await bootstrap(settings(nats_server))):
        await look_at(await diagnosing(bus))
        assert await judgements(bus) == [("n-1", "suspect")]
        await look_at(await diagnosing(bus))
        assert await judgements(bus) == [("n-1", "suspect"), ("n-1", "bad")]
        mark = ev.NodeMarked(cluster="main", node="n-1", wish="Ready", by="root", reason="a new disk")
        event = jobs.event(mark, "n-1", attempt=0)
        await bus.observe(event, subject=f"tm.node.{Cluster.id_of('main')}.n-1.marked")
        await look_at(await diagnosing(bus))
        assert (await judgements(bus))[2:] == [("n-1", "suspect")]


async def test_a_node_that_computes_wrong_twice_is_bad_at_once_and_good_again_by_passing(
    bus: Bus, nats_server: NatsServer
) -> None:
    sound = True

    def answer(_nodes: tuple[str, ...]) -> dict[str, Measurement]:
        return {"n-11": measurement(unix_ms=now_ms(), **({} if sound else {"checksums": {"bad": (0, 1)}}))}

    await agent(bus, "m11", answer)
    async with running(await bootstrap(settings(nats_server))):
        for sound in (False, True):
            job = await diagnosing(bus)
            await request(bus, job, {"n-11": "m11"})
            assert (await outcome(bus, job)).passed is sound
    assert [health for node, health in await judgements(bus) if node == "n-11"] == ["bad", "good"]


async def test_a_node_that_passed_lately_is_looked_at_and_not_tested_again(bus: Bus, nats_server: NatsServer) -> None:
    await agent(bus, "m12", all_well)
    async with running(await bootstrap(settings(nats_server))):
        for _ in range(2):
            job = await diagnosing(bus)
            await request(bus, job, {"n-12": "m12", "n-13": "m12"})
            assert (await outcome(bus, job)).passed
    parts = await diagnosed(bus, "n-12")
    assert [(part.fresh, bool(part.pairs)) for part in parts] == [(True, True), (False, False)]
    assert parts[0].node_count == 2


async def test_a_node_whose_worker_never_answers_is_bad(bus: Bus, nats_server: NatsServer) -> None:
    async def on_request(message: Msg) -> None:
        await message.respond(encode_probe_answer(all_well(decode_probe_request(message.data))))

    await bus.client.subscribe(probe_subject("m14"), cb=on_request)
    await registered(bus.client)
    job = await diagnosing(bus)
    async with running(await bootstrap(settings(nats_server))):
        await request(bus, job, {"n-14": "m14"})
        assert (
            "it cannot be tested: its agent did not answer about opening its devices"
            in (await outcome(bus, job)).message
        )


async def test_stages_that_the_jobs_instance_type_leaves_out_are_not_made(bus: Bus, nats_server: NatsServer) -> None:
    off = dict.fromkeys(("compute", "devices", "pairs", "gang"), False)
    await CatalogStore(bus).put(instance_type("cpu-small", diagnosis={"stages": off}), expected=0)
    await agent(bus, "m15", all_well)
    job = await diagnosing(bus)
    async with running(await bootstrap(settings(nats_server))):
        await request(bus, job, {"n-1": "m15"})
        assert (await outcome(bus, job)).passed
    (part,) = await diagnosed(bus, "n-1")
    assert {figure.name for figure in part.figures if figure.device} == {"memory bandwidth"}
    assert part.about["transport"] == "gloo"


async def diagnosed(bus: Bus, node: str) -> list[ev.NodeDiagnosed]:
    messages = await bus.history.messages(NODES, f"tm.node.*.{node}.diagnosed")
    payloads = [recorded_of(message).event.data for message in messages]
    return [payload for payload in payloads if isinstance(payload, ev.NodeDiagnosed)]


async def test_an_admin_has_nodes_diagnosed_with_a_pretended_fault_that_leaves_no_trace(
    bus: Bus, nats_server: NatsServer
) -> None:
    for node in ("n-21", "n-22", "n-23"):
        await agent(bus, f"m-{node}", all_well)
        await reported(bus, node, f"m-{node}")
    wanted = {"nodes": ["vm-n-21", "n-22", "n-23"], "inject": ["flaky:vm-n-21:1"]}
    async with calling(nats_server) as client:
        begun = (await client.post("/v1/diagnoses", json=wanted)).json()
        assert begun["state"] in ("queued", "running")
        assert 0 < begun["budgetS"] <= begun["mostS"]

        async def look() -> dict[str, Any] | None:
            document = (await client.get(f"/v1/diagnoses/{begun['id']}")).json()
            return document if document["state"] not in ("queued", "running") else None

        report = await eventually(look)
        listed = (await client.get("/v1/diagnoses")).json()["items"]
    assert report["state"] == "finished"
    assert report["injected"] == ["flaky:vm-n-21:1"]
    verdicts = {node["node"]: node["verdict"] for node in report["nodes"]}
    assert verdicts == {"n-21": "red", "n-22": "green", "n-23": "green"}
    assert {pair["first"] for pair in report["pairs"]} == {"n-21", "n-22"}
    assert listed[0]["id"] == begun["id"]
    assert [node for node, _health in await judgements(bus) if node == "n-21"] == []


async def test_of_a_report_no_part_is_compared_with_another_as_an_earlier_value(
    bus: Bus, nats_server: NatsServer
) -> None:
    nodes = [f"n-{number}" for number in range(81, 85)]
    for node in nodes:
        await agent(bus, f"m-{node}", all_well)
        await reported(bus, node, f"m-{node}")
    async with calling(nats_server) as client:
        begun = (await client.post("/v1/diagnoses", json={"nodes": nodes})).json()

        async def look() -> dict[str, Any] | None:
            document = (await client.get(f"/v1/diagnoses/{begun['id']}")).json()
            return document if document["state"] == "finished" else None

        report = await eventually(look)
    measured = [*report["pairs"], *(figure for node in report["nodes"] for figure in node["figures"])]
    assert {each["against"] for each in report["pairs"]} == {"5 others of this run"}
    assert not [each["against"] for each in measured if "earlier" in each["against"]]


async def test_a_diagnosis_that_failed_without_a_report_is_listed_with_its_reason(
    bus: Bus, nats_server: NatsServer
) -> None:
    await agent(bus, "m-91", all_well)
    await reported(bus, "n-91", "m-91")
    async with calling(nats_server) as client:
        wanted = {"nodes": ["n-91"], "inject": ["missing-device:n-91:GPU-1"]}
        begun = (await client.post("/v1/diagnoses", json=wanted)).json()

        async def look() -> dict[str, Any] | None:
            listed = (await client.get("/v1/diagnoses")).json()["items"]
            return next((each for each in listed if each["id"] == begun["id"] and each["state"] == "failed"), None)

        found = await eventually(look)
    assert found["message"].endswith("the node has no device 'GPU-1'; it has cpu-0, cpu-1")
    assert found["injected"] == ["missing-device:n-91:GPU-1"]


async def test_what_cannot_be_diagnosed_is_refused(bus: Bus, nats_server: NatsServer) -> None:
    await reported(bus, "n-31", "m-31", devices=("GPU-1", "GPU-2"))
    async with calling(nats_server) as client:
        budgets = [
            (await client.post("/v1/diagnoses/plans", json={"nodes": {"vm-n-31": gpus}})).json() for gpus in (0, 2)
        ]
        nowhere = await client.post("/v1/diagnoses/plans", json={"nodes": {"n-99": 1}})
        unknown = await client.post("/v1/diagnoses", json={"nodes": ["n-99"]})
        fault = await client.post("/v1/diagnoses", json={"nodes": ["n-31"], "inject": ["meteor:n-31"]})
        missing = await client.get("/v1/diagnoses/dg-nothing")
    assert (unknown.status_code, fault.status_code, missing.status_code, nowhere.status_code) == (404, 422, 404, 404)
    assert [each["tested"] for each in budgets] == [["vm-n-31"], ["vm-n-31"]]
    assert 0 < budgets[0]["budgetS"] < budgets[0]["mostS"] < budgets[1]["budgetS"] <= 240
    assert "there is no fault 'meteor'" in fault.text


async def test_deep_tests_are_refused_where_they_are_not_possible_and_so_are_unknown_types(
    bus: Bus, nats_server: NatsServer
) -> None:
    async def without_dcgm(message: Msg) -> None:
        await message.respond(encode_test_answer(TestAnswer(problem="DCGM is not installed")))

    await bus.client.subscribe(worker_subject("m-41"), cb=without_dcgm)
    await registered(bus.client)
    await reported(bus, "n-41", "m-41", devices=("GPU-1",))
    await reported(bus, "n-42", "m-42")
    async with calling(nats_server) as client:
        deep = await client.post("/v1/diagnoses", json={"nodes": ["n-41", "n-42"], "deep": 2})
        deeper = await client.post("/v1/diagnoses", json={"nodes": ["n-41"], "deep": 5})
        unknown = await client.post("/v1/diagnoses", json={"nodes": ["n-41"], "instanceType": "gpu-none"})
    assert (deep.status_code, deeper.status_code, unknown.status_code) == (409, 422, 404)
    assert "vm-n-41: DCGM is not installed; vm-n-42: it has no GPU" in deep.text
    assert "instance type 'gpu-none'" in unknown.text


async def test_only_admins_have_nodes_diagnosed_and_see_reports(nats_server: NatsServer) -> None:
    async with calling(nats_server, admin=False) as client:
        answers = [
            await client.post("/v1/diagnoses", json={"nodes": ["n-1"]}),
            await client.get("/v1/diagnoses"),
            await client.get("/v1/diagnoses/dg-1"),
            await client.get("/v1/diagnoses/nodes/n-1"),
            await client.delete("/v1/diagnoses/dg-1"),
        ]
    assert [answer.status_code for answer in answers] == [403] * 5


async def test_the_owner_of_a_job_reads_the_report_of_its_diagnosis_with_all_figures(
    bus: Bus, nats_server: NatsServer
) -> None:
    for machine in ("m71", "m72"):
        await agent(bus, machine, all_well)
    job = await diagnosing(bus)
    async with calling(nats_server, admin=False) as client:
        await request(bus, job, {"n-71": "m71", "n-72": "m72"})
        await outcome(bus, job)
        report = (await client.get(f"/v1/diagnoses/{job}-1")).json()
    first, second = report["nodes"]
    assert (report["job"], first["node"], second["verdict"]) == (job, "n-71", "green")
    assert next(fact for fact in first["facts"] if fact["name"] == "open files")["floor"] == 1024
    assert {figure["name"] for figure in first["figures"]} >= {"memory bandwidth", "bf16 multiplication"}
    (pair,) = report["pairs"]
    assert (pair["bandwidthMbS"], pair["verdict"], pair["floorMbS"]) == (1000.0, "green", None)


async def test_a_job_of_somebody_else_has_a_report_for_admins_alone(bus: Bus, nats_server: NatsServer) -> None:
    await agent(bus, "m73", all_well)
    job = await diagnosing(bus, owner="u-eve")
    async with calling(nats_server, admin=False) as client:
        await request(bus, job, {"n-73": "m73"})
        await outcome(bus, job)
        assert (await client.get(f"/v1/diagnoses/{job}-1")).status_code == 403
    async with calling(nats_server) as client:
        assert (await client.get(f"/v1/diagnoses/{job}-1")).status_code == 200


async def test_admins_see_what_the_ledger_says_of_a_node_by_its_name(bus: Bus, nats_server: NatsServer) -> None:
    await reported(bus, "n-74", "m74")
    lagged = ev.NodeLagged(cluster="main", node="n-74", job="tj-a", attempt=1, rank=2, reason="it is slow")
    subject = f"tm.node.{Cluster.id_of('main')}.n-74.lagged"
    now = SystemClock().now()
    await bus.observe(ev.Event.of(lagged, job="n-74", attempt=0, time=now, owner="", project=""), subject=subject)
    async with calling(nats_server) as client:

        async def told() -> dict[str, Any] | None:
            found = (await client.get("/v1/diagnoses/nodes/vm-n-74")).json()
            return found if found["health"] == "suspect" else None

        entry = await eventually(told)
        missing = await client.get("/v1/diagnoses/nodes/nowhere")
    assert (entry["node"], entry["name"], entry["suspect"]) == ("n-74", "vm-n-74", True)
    assert 0.05 < entry["suspicion"] < 0.1
    assert (entry["passUntil"], entry["reason"], entry["lastDiagnosis"]) == (None, "it is slow", None)
    assert missing.status_code == 404


async def test_after_a_replacement_only_the_new_node_is_tested_and_the_others_are_its_partners(
    bus: Bus, nats_server: NatsServer
) -> None:
    def answer(asked: tuple[str, ...]) -> dict[str, Measurement]:
        sound = measurement(unix_ms=now_ms())
        return {node: replace(sound, open_files=1) if node == "n-62" else sound for node in asked}

    for number in range(61, 66):
        await agent(bus, f"m{number}", answer)
    machines = {f"n-{number}": f"m{number}" for number in range(61, 65)}
    job = await diagnosing(bus)
    async with running(await bootstrap(settings(nats_server))):
        await request(bus, job, machines)
        assert (await outcome(bus, job)).bad_nodes == ("n-62",)
        moved = ev.PlacementChanged(roles=jobs.placed().roles, left=("n-62",), taken=("n-65",), round=2)
        found = await bus.load_job(job)
        assert found is not None
        await bus.append(jobs.event(moved, job), expected=found.sequence)
        machines = {"n-61": "m61", "n-63": "m63", "n-64": "m64", "n-65": "m65"}
        again = ev.DiagnosisRequested(nodes=tuple(machines), machines=machines, round=2, only=("n-65",))
        await bus.observe(jobs.event(again, job))
        second = await outcome(bus, job)
    assert (second.passed, second.round) == (True, 2)
    reports = [(await diagnosed(bus, node))[-1] for node in machines]
    assert {part.diagnosis for part in reports} == {f"{job}-1-r2"}
    assert [part.fresh for part in reports] == [False, False, False, True]
    assert [len(await diagnosed(bus, node)) for node in ("n-62", "n-65")] == [1, 1]
