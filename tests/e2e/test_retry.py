"""Jobs that are retried, or not, with real replicas: each policy, the budget, the interval, stops, hangs, kills."""

from __future__ import annotations

import json
import os
import signal
from datetime import datetime
from typing import Any

import pytest

from tests.support.platform import Platform, await_, job_document

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

SCRATCH = {"type": "storage", "source": "scratch", "mountPath": "/mnt/data"}
NOTE_ATTEMPT = "echo $TM_ATTEMPT >> /mnt/data/$TM_JOB_NAME.attempts; "


def submit(platform: Platform, name: str, command: str, retry: dict[str, Any], **spec: Any) -> str:
    """Submit a job that notes each of its attempts on the mount."""
    document = job_document(name, NOTE_ATTEMPT + command, mounts=[SCRATCH], terminationGrace="1s", retry=retry, **spec)
    return platform.submit(document)


def attempts_run(platform: Platform, name: str) -> list[str]:
    return (platform.scratch / f"{name}.attempts").read_text().split()


def ended(platform: Platform, job: str, timeout_s: float = 90) -> tuple[str, list[dict[str, Any]]]:
    status = platform.await_end(job, timeout_s)["status"]
    return status["state"], status["attempts"]


def policy(policy: str, most: int = 1, **conditions: Any) -> dict[str, Any]:
    return {"maxRetries": most, "on": {"failure": {"policy": policy, **conditions}}}


def events(platform: Platform, job: str, kind: str) -> list[dict[str, Any]]:
    listed = json.loads(platform.cli("events", job, "-o", "json").stdout)["items"]
    return [event for event in listed if event["type"] == f"trainmaster.{kind}.v1"]


def test_a_job_that_fails_twice_succeeds_in_its_third_attempt(platform: Platform) -> None:
    command = "test $TM_ATTEMPT = 3 && test $TM_RESUME = 1 && test $TM_CHECKPOINT_DIR = /mnt/data/ckpt"
    job = submit(platform, "third-time", command, policy("OnFailure", 5), checkpoint={"dir": "/mnt/data/ckpt"})
    state, attempts = ended(platform, job)
    assert state == "Succeeded"
    assert attempts_run(platform, "third-time") == ["1", "2", "3"]
    assert [attempt["decision"] and attempt["decision"]["retry"] for attempt in attempts] == [True, True, None]
    assert [attempt["decision"]["budgetLeft"] for attempt in attempts[:2]] == [4, 3]


def test_no_more_new_attempts_are_made_than_asked_for(platform: Platform) -> None:
    job = submit(platform, "used-up", "exit 4", policy("OnFailure", 2))
    state, attempts = ended(platform, job)
    assert state == "Failed"
    assert attempts_run(platform, "used-up") == ["1", "2", "3"]
    assert attempts[-1]["decision"]["reason"].endswith("OnFailure retries every failure, but all 2 retries are used up")
    assert "used up" in platform.cli("explain", "used-up").stdout


def test_a_listed_exit_code_is_retried_and_another_is_not(platform: Platform) -> None:
    code = "exit $((40 + TM_ATTEMPT))"
    job = submit(platform, "codes", code, policy("ExitCodeAndErrorMsg", 5, exitCodes=[41]))
    state, attempts = ended(platform, job)
    assert state == "Failed"
    assert attempts_run(platform, "codes") == ["1", "2"]
    assert [attempt["decision"]["rule"] for attempt in attempts] == ["exit-code/41", None]


def test_a_killed_replica_has_the_exit_code_of_its_signal(platform: Platform) -> None:
    job = submit(platform, "killed-137", "kill -9 $$", policy("Advanced", exitCodes=[137]))
    _state, attempts = ended(platform, job)
    assert [attempt["decision"]["rule"] for attempt in attempts] == ["exit-code/137"] * 2


def test_a_message_in_the_log_is_retried_with_the_line_on_record(platform: Platform) -> None:
    command = (
        "for i in $(seq 15); do echo line $i; done; printf '\\033[31mstorage gave'; sleep 0.4; "
        "printf ' up on block %s\\033[0m\\n' 7; echo after; exit 1"
    )
    retry = policy("ExitCodeAndErrorMsg", errorMessages=[["never"], ["storage gave up", "block 7"]])
    job = submit(platform, "message", command, retry)
    _state, attempts = ended(platform, job)
    assert len(attempts) == 2
    decision = attempts[0]["decision"]
    assert (decision["retry"], decision["rule"], decision["line"]) == (True, "message/2", "storage gave up on block 7")
    assert decision["replica"] == {"role": "worker", "index": 0}
    (incident,) = attempts[0]["incidents"]
    assert incident["before"] == [f"line {number}" for number in range(6, 16)]
    told = platform.cli("describe", "message").stdout
    assert "message/2" in told
    assert "storage gave up on block 7" in told


def test_a_preset_row_on_one_line_is_retried_and_on_two_lines_is_not(platform: Platform) -> None:
    row = ("NCCL WARN socketProgressOpt: Call to recv from 10.0.0.1<4>", "failed : Connection reset by peer")
    matched = submit(platform, "preset", f"echo '{' '.join(row)}' >&2; exit 1", policy("Advanced"))
    split = submit(platform, "preset-split", f"echo '{row[0]}'; echo '{row[1]}'; exit 1", policy("Advanced"))
    decision = ended(platform, matched)[1][0]["decision"]
    assert (decision["retry"], decision["rule"]) == (True, "preset/nccl-connection-reset")
    state, attempts = ended(platform, split)
    assert (state, len(attempts)) == ("Failed", 1)
    assert "no rule decides" in attempts[0]["decision"]["reason"]


def test_a_silent_job_is_tried_again_for_as_long_as_each_attempt_saves_a_further_checkpoint(platform: Platform) -> None:
    save = (
        "if [ $TM_ATTEMPT -lt 3 ]; then mkdir -p $TM_CHECKPOINT_DIR; touch $TM_CHECKPOINT_DIR/step-$TM_ATTEMPT.pt; fi"
    )
    command = f"{save}; echo 'Name or service not known'; exit 1"
    job = submit(platform, "silent-saver", command, policy("Advanced", 5), checkpoint={"dir": "/mnt/data/saved"})
    ended(platform, job)
    decisions = [event["data"] for event in events(platform, job, "retry.decided")]
    assert [each.get("checkpoint") for each in decisions] == ["step-1.pt", "step-2.pt", None]
    assert [each["retry"] for each in decisions] == [True, True, False]
    assert "came no further" in decisions[-1]["reason"]


def test_last_words_of_a_survivor_decide(platform: Platform) -> None:
    command = (
        'if [ "$RANK" = 1 ]; then exit 1; fi; sleep 2; '
        "echo 'RuntimeError: Gloo connectFullMesh failed with peer'; exec sleep 60"
    )
    document = job_document("last-words", command, replicas=2, terminationGrace="1s", retry=policy("Advanced"))
    job = platform.submit(document)
    decision = ended(platform, job)[1][0]["decision"]
    assert (decision["rule"], decision["replica"]["index"]) == ("preset/gloo-connect", 0)


def test_the_next_attempt_is_queued_when_the_interval_is_over(platform: Platform) -> None:
    job = submit(platform, "interval", "exit 1", {"maxRetries": 1, "interval": "3s"})
    _state, attempts = ended(platform, job)
    end, queued = (datetime.fromisoformat(t) for t in (attempts[0]["endedAt"], attempts[1]["queuedAt"]))
    assert (queued - end).total_seconds() >= 3
    assert attempts[0]["decision"]["notBefore"] is not None


def test_a_job_that_is_stopped_while_it_waits_for_its_retry_is_not_retried(platform: Platform) -> None:
    job = submit(platform, "stop-retrying", "exit 1", {"maxRetries": 5, "interval": "1h"})
    platform.await_state(job, "Retrying")
    assert "attempt 2 is queued at" in platform.cli("explain", "stop-retrying").stdout
    platform.cli("stop", "stop-retrying")
    state, attempts = ended(platform, job)
    assert (state, len(attempts)) == ("Stopped", 1)


def test_a_job_that_is_stopped_while_it_runs_is_not_retried(platform: Platform) -> None:
    job = submit(platform, "stop-running", "sleep 600", policy("OnFailure", 5))
    platform.await_state(job, "Running")
    platform.cli("stop", "stop-running")
    state, attempts = ended(platform, job)
    assert (state, len(attempts), attempts[0]["decision"]) == ("Stopped", 1, None)


def test_a_hang_is_stopped_and_retried(platform: Platform) -> None:
    command = "echo begins; if [ $TM_ATTEMPT = 1 ]; then exec sleep 600; fi"
    job = submit(
        platform,
        "hangs",
        command,
        {"maxRetries": 2, "on": {"hang": True}},
        hangDetection={"enabled": True, "silence": "2s"},
    )
    state, attempts = ended(platform, job)
    assert (state, len(attempts)) == ("Succeeded", 2)
    assert attempts[0]["endReason"] == "hang"
    assert attempts[0]["decision"]["rule"] == "on-hang"
    assert [(each["rule"], each["action"]) for each in attempts[0]["incidents"]][-1] == ("hang", "stop")
    assert "no replica has written anything for 2s" in platform.cli("describe", "hangs").stdout
    evidence = attempts[0]["evidence"][-1]
    assert (evidence["rule"], evidence["problems"]) == ("hang", [])
    assert "worker-0 is sleeping" in evidence["summary"]
    assert "begins" in platform.cli("evidence", "hangs").stdout
    assert "hang" in platform.cli("get", "incidents", "--job", "hangs").stdout


def test_a_hang_that_is_not_to_be_retried_is_told_and_stops_nothing(platform: Platform) -> None:
    release = platform.scratch / "release"
    command = "until [ -e /mnt/data/release ]; do sleep 0.2; done"
    retry = policy("OnFailure")
    job = submit(platform, "only-told", command, retry, hangDetection={"enabled": True, "silence": "2s"})
    rule = "hang/never-printed"
    incidents = await_(
        "a hang is told",
        lambda: [each for each in platform.job(job)["status"]["attempts"][0]["incidents"] if each["rule"] == rule],
    )
    assert incidents[0]["action"] == "none"
    assert platform.job(job)["status"]["state"] == "Running"
    release.touch()
    state, attempts = ended(platform, job)
    assert (state, len(attempts)) == ("Succeeded", 1)


def test_a_progress_bar_without_line_ends_is_output(platform: Platform) -> None:
    command = r"for i in $(seq 1 24); do printf '\r%d%%' $i; sleep 0.5; done"
    retry = {"maxRetries": 1, "on": {"hang": True}}
    job = submit(platform, "bar", command, retry, hangDetection={"enabled": True, "silence": "3s"})
    state, attempts = ended(platform, job)
    assert (state, len(attempts)) == ("Succeeded", 1)
    assert [each for each in attempts[0]["incidents"] if each["rule"] == "hang"] == []


def test_rules_and_notifications_are_applied_like_anything_else(platform: Platform) -> None:
    """The address is on this machine, so nothing is posted, and the reason is told."""
    tried = {
        "class": "user",
        "anyOf": [["scratch volume gone"]],
        "advice": "Ask the storage team.",
        "matches": ["scratch volume gone"],
    }
    hook = {"events": ["failed"], "webhook": {"url": "http://127.0.0.1:9/hook"}}
    for kind, name, spec in (("Rule", "scratch-gone", tried), ("Notification", "mine", hook)):
        metadata = {"apiVersion": "trainmaster/v1", "kind": kind, "metadata": {"name": name}}
        platform.apply({**metadata, "spec": spec})
    job = submit(platform, "tells", "echo E scratch volume gone; exit 3", policy("Advanced", 1))
    assert ended(platform, job)[0] == "Failed"
    await_("the rule was found", lambda: "tells" in platform.cli("get", "incidents", "--rule", "scratch-gone").stdout)
    assert "shadow" in platform.cli("get", "rules", "scratch-gone").stdout
    await_(
        "the notice was given up",
        lambda: "not on the public internet" in platform.cli("get", "notifications", "mine", "-o", "json").stdout,
    )


@pytest.mark.chaos
def test_a_platform_killed_while_a_job_is_in_deciding_decides_with_the_whole_log(own_platform: Platform) -> None:
    platform = own_platform
    command = (
        "until [ -e /mnt/data/go ]; do sleep 0.1; done; "
        "test $TM_ATTEMPT = 2 || { echo RuntimeError: Gloo connectFullMesh failed with x; exit 1; }"
    )
    job = submit(platform, "deciding", command, policy("Advanced"))
    platform.await_state(job, "Running")
    agent = platform.child("agent")
    assert agent is not None
    os.kill(agent, signal.SIGSTOP)
    (platform.scratch / "go").touch()
    platform.await_state(job, "Deciding")
    platform.kill()
    platform.up()
    state, attempts = ended(platform, job, 40)
    assert (state, len(attempts)) == ("Succeeded", 2)
    assert attempts[0]["decision"]["rule"] == "preset/gloo-connect"


@pytest.mark.chaos
def test_a_platform_killed_while_it_decides_and_while_a_retry_waits_makes_no_attempt_too_many(
    own_platform: Platform,
) -> None:
    platform = own_platform
    line = "echo step $TM_ATTEMPT; echo RuntimeError: Gloo connectFullMesh failed with x"
    jobs = {
        "waiting": submit(platform, "waiting", "exit 1", {"maxRetries": 2, "interval": "4s"}),
        "reading": submit(platform, "reading", f"{line}; sleep 2; exit 1", policy("Advanced", 2)),
        "silent": submit(
            platform, "silent", "exec sleep 600", {"maxRetries": 1, "on": {"hang": True}},
            hangDetection={"enabled": True, "silence": "8s"},
        ),
    }  # fmt: skip
    platform.await_state(jobs["waiting"], "Retrying")
    for _kill in range(3):
        platform.kill()
        platform.up()
        platform.await_state(jobs["reading"], "Deciding", "Retrying", "Queued", "Failed", "Running")
    for name, most in (("waiting", 2), ("reading", 2), ("silent", 1)):
        state, attempts = ended(platform, jobs[name], 180)
        assert (state, len(attempts)) == ("Failed", most + 1), name
        assert attempts_run(platform, name) == [str(number) for number in range(1, most + 2)], name
        assert [attempt["decision"]["retry"] for attempt in attempts] == [True] * most + [False], name
        assert len(events(platform, name, "retry.decided")) == most + 1
    decisions = [attempt["decision"] for attempt in platform.job(jobs["reading"])["status"]["attempts"]]
    assert [decision["rule"] for decision in decisions] == ["preset/gloo-connect"] * 3
