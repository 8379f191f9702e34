"""The diagnosis of nodes through the whole platform, with the real probe in the real agent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.scheduler.domain.split import Split
from services.scheduler.engines.local.inventory import divided, look_at_machine
from tests.support.platform import Platform, await_, job_document

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

DIAGNOSED = {"diagnosis": {"enabled": True}}


def node_ids(count: int) -> list[str]:
    """The ids that this machine's nodes have in every platform, in the order in which idle ones are given to jobs."""
    return sorted(offer.id for offer in divided(look_at_machine(), Split(count)))


@pytest.fixture
def faulty_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    """Two nodes, of which the first computes wrong."""
    monkeypatch.setenv("TRAINMASTER_PROBE_FAULTS", f"{node_ids(2)[0]}=checksum")
    platform = Platform(tmp_path / "home", nodes=2)
    platform.up()
    yield platform
    platform.cli("down", "--home", str(platform.home), "--replicas", check=False)


def told(platform: Platform, job: str) -> list[str]:
    with platform.http as http:
        return [
            event["type"].removeprefix("trainmaster.") for event in http.get(f"/v1/jobs/{job}/events").json()["items"]
        ]


def test_a_job_on_sound_nodes_is_diagnosed_and_then_runs(platform: Platform) -> None:
    job = platform.submit(job_document("diagnosed", "echo ran", replicas=2, **DIAGNOSED))
    assert platform.await_end(job)["status"]["state"] == "Succeeded"
    expected = ["job.placed.v1", "diagnosis.requested.v1", "diagnosis.finished.v1", "job.admitted.v1"]
    events = told(platform, job)
    # A machine that is busy with other tests may raise a doubt, and the diagnosis another round.
    assert list(dict.fromkeys(event for event in events if event in expected)) == expected
    assert events.index("job.admitted.v1") < events.index("job.started.v1")
    assert platform.log(job) == b"ran\n"


def test_a_bad_node_fails_the_attempt_before_anything_runs_and_is_named(faulty_platform: Platform) -> None:
    platform, (bad, sound) = faulty_platform, node_ids(2)
    job = platform.submit(job_document("unlucky", "echo ran", excludeNodes=[sound], **DIAGNOSED))
    status = platform.await_end(job)["status"]
    assert (status["state"], status["reason"]) == ("Failed", "diagnosis")
    diagnosis = status["attempts"][0]["diagnosis"]
    assert [(node["node"], node["passed"]) for node in diagnosis["nodes"]] == [(bad, False)]
    assert any("CPU 0" in problem for problem in diagnosis["nodes"][0]["problems"])
    assert diagnosis["badNodes"][0] in platform.cli("describe", "unlucky").stdout
    assert "job.started.v1" not in told(platform, job)
    other = platform.submit(job_document("lucky", "echo ran", excludeNodes=[bad], **DIAGNOSED))
    assert platform.await_end(other)["status"]["state"] == "Succeeded"


def test_the_next_attempt_is_placed_on_another_node(faulty_platform: Platform) -> None:
    platform, (bad, sound) = faulty_platform, node_ids(2)
    filling = job_document("fills", "sleep 600", instance_type="cpu-small", excludeNodes=[bad])
    platform.await_state(platform.submit(filling), "Running")
    retry = {"maxRetries": 2, "on": {"diagnosisFailure": True}}
    job = platform.submit(job_document("again", "echo ran", instance_type="cpu-small", retry=retry, **DIAGNOSED))
    await_(
        "explain names the bad node", lambda: "failed this job's diagnosis" in platform.cli("explain", "again").stdout
    )
    platform.cli("stop", "fills")
    status = platform.await_end(job)["status"]
    assert status["state"] == "Succeeded"
    nodes = [attempt["placement"]["roles"][0]["nodes"] for attempt in status["attempts"]]
    assert nodes == [[bad], [sound]]


def test_a_bad_node_is_replaced_within_the_attempt(faulty_platform: Platform) -> None:
    platform, (bad, sound) = faulty_platform, node_ids(2)
    job = platform.submit(job_document("moved", "echo ran", **DIAGNOSED))
    status = platform.await_end(job)["status"]
    assert (status["state"], len(status["attempts"])) == ("Succeeded", 1)
    (attempt,) = status["attempts"]
    assert attempt["placement"]["roles"][0]["nodes"] == [sound]
    (moved,) = attempt["replaced"]
    assert "CPU 0" in moved["reason"]
    assert f"{moved['left'][0]} by {moved['taken'][0]}" in platform.cli("describe", "moved").stdout
    assert [event for event in told(platform, job) if event.startswith(("placement", "job.admitted"))] == [
        "placement.changed.v1",
        "job.admitted.v1",
    ]
    assert bad not in [replica["node"] for replica in attempt["replicas"]]


@pytest.mark.parametrize("victim", ["platform", "agent", "nats-server"])
def test_a_diagnosis_outlives_a_kill_in_the_middle(own_platform: Platform, victim: str) -> None:
    platform = own_platform
    agent = platform.child("services.agent")
    assert agent is not None
    os.kill(agent, signal.SIGSTOP)
    job = platform.submit(job_document("held", "echo ran", **DIAGNOSED))
    await_("the diagnosis was asked for", lambda: "diagnosis.requested.v1" in told(platform, job))
    platform.kill_part(victim)
    if victim == "nats-server":  # of the others, the agent has ended too
        os.kill(agent, signal.SIGCONT)
    if victim == "platform":
        platform.up()
    assert platform.await_end(job)["status"]["state"] == "Succeeded"
    events = told(platform, job)
    assert events.count("job.admitted.v1") == 1
    assert events.count("diagnosis.finished.v1") == 1 + events.count("placement.changed.v1")


def test_a_stop_during_the_diagnosis_ends_the_job_at_once(own_platform: Platform) -> None:
    platform = own_platform
    agent = platform.child("services.agent")
    assert agent is not None
    os.kill(agent, signal.SIGSTOP)
    try:
        job = platform.submit(job_document("held", "echo ran", **DIAGNOSED))
        await_("the diagnosis was asked for", lambda: "diagnosis.requested.v1" in told(platform, job))
        platform.cli("stop", "held")
        assert platform.await_end(job, timeout_s=10)["status"]["state"] == "Stopped"
    finally:
        os.kill(agent, signal.SIGCONT)
    assert "job.started.v1" not in told(platform, job)
