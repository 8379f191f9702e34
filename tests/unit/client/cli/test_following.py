from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_platform import Answer, FakePlatform, of_events, of_json, problem
from tests.support.job_documents import JOB_ID, attempt_document, event_document, job_document
from trainmaster.cli import following, waiting
from trainmaster.errors import ExitCode

JOB = "apiVersion: trainmaster/v1\nkind: TrainingJob\nmetadata: {name: mnist-ddp}\nspec: {}\n"
END = ("z", "end", {})

Command = Callable[..., Any]


def chunk(text: str, index: int = 0, attempt: int = 1, cursor: str = "c") -> tuple[str, str, dict[str, Any]]:
    return cursor, "chunk", {"attempt": attempt, "role": "worker", "index": index, "offset": 0, "text": text}


def happened(name: str, sequence: int, second: float = 0, /, **data: Any) -> tuple[str, None, dict[str, Any]]:
    return str(sequence), None, event_document(name, second, **data)


PLACED = happened("job.placed", 4, 0.2)


@pytest.fixture
def job(api: FakePlatform, tmp_path: Path) -> Callable[..., list[str]]:
    """Scripts a job; gives the arguments that submit and follow it."""

    def script(logs: Answer, events: Answer, state: str = "Succeeded", **status: Any) -> list[str]:
        api.on("POST", "/v1/jobs", of_json(job_document("Queued"), 201))
        api.on("GET", f"/v1/jobs/{JOB_ID}", of_json(job_document(state, **status)))
        api.on("GET", f"/v1/logs/{JOB_ID}/follow", logs)
        api.on("GET", f"/v1/jobs/{JOB_ID}/events", events)
        path = tmp_path / "job.yaml"
        path.write_text(JOB)
        return ["apply", "-f", str(path), "--follow"]

    return script


def test_logs_go_to_standard_output_with_the_name_of_their_replica(
    command: Command, job: Callable[..., list[str]]
) -> None:
    logs = of_events(chunk("hel"), chunk("one\n", 1), chunk("lo\nlast"), chunk("10%\r100%\n", 1), END)
    outcome = command(*job(logs, of_events(PLACED, happened("job.succeeded", 9, 5))))
    assert outcome.code == ExitCode.OK
    assert [line for line in outcome.out.splitlines() if line.startswith("[")] == [
        "[worker-1] one",
        "[worker-0] hello",
        "[worker-1] 100%",
        "[worker-0] last",
    ]


def test_what_happens_to_the_job_goes_to_standard_error(command: Command, job: Callable[..., list[str]]) -> None:
    events = of_events(
        happened("job.submitted", 1, name="mnist-ddp"),
        PLACED,
        happened("job.started", 5, 1.5),
        happened("job.succeeded", 9, 5),
    )
    outcome = command(*job(of_events(chunk("x\n"), END), events))
    assert [line for line in outcome.err.splitlines() if line.startswith("--")] == [
        "-- 12:00:00.000 submitted: mnist-ddp: , priority 5",
        "-- 12:00:00.200 placed",
        "-- 12:00:01.500 started: every replica runs",
        "-- 12:00:05.000 succeeded",
    ]
    assert outcome.err.splitlines()[-1] == "mnist-ddp Succeeded after 3m11s"


@pytest.mark.parametrize(
    ("event", "state", "code"),
    [
        ("job.succeeded", "Succeeded", ExitCode.OK),
        ("job.failed", "Failed", ExitCode.JOB_FAILED),
        ("job.stopped", "Stopped", ExitCode.JOB_STOPPED),
    ],
)
def test_the_exit_code_says_how_the_job_ended(
    command: Command, job: Callable[..., list[str]], event: str, state: str, code: ExitCode
) -> None:
    assert command(*job(of_events(END), of_events(happened(event, 9)), state)).code == code


def test_replicas_that_failed_are_named(command: Command, job: Callable[..., list[str]]) -> None:
    arguments = job(of_events(END), of_events(happened("job.failed", 9)), "Failed", attempts=[attempt_document(3, 0)])
    assert command(*arguments).err.splitlines()[-1] == "  worker-0 on node-0 exited 3"


def test_the_attempt_is_named_from_the_second_on(command: Command, job: Callable[..., list[str]]) -> None:
    logs = of_events(chunk("first\n"), chunk("again\n", attempt=2), END)
    outcome = command(*job(logs, of_events(PLACED, happened("job.succeeded", 9))))
    assert "[worker-0] first\n[worker-0 #2] again\n" in outcome.out


def test_a_job_that_waits_says_for_what(
    command: Command, job: Callable[..., list[str]], api: FakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "FIRST_AFTER_S", 0.0)
    gate = threading.Event()
    events = Answer(headers={"Content-Type": "text/event-stream"}, pieces=[b": hello\n\n"], gate=gate, breaks=True)
    arguments = job(of_events(END), events)
    api.on("GET", f"/v1/jobs/{JOB_ID}/events", events, of_events(happened("job.succeeded", 9)))
    api.on("GET", f"/v1/queue/{JOB_ID}", of_json({"job": JOB_ID, "state": "Queued", "summary": "place 2 of 3"}))
    threading.Timer(0.5, gate.set).start()
    assert command(*arguments).err.count("-- Queued: place 2 of 3\n") == 1


def test_lines_that_come_after_the_last_event_are_waited_for(
    command: Command, job: Callable[..., list[str]], api: FakePlatform
) -> None:
    gate = threading.Event()
    late = Answer(headers={"Content-Type": "text/event-stream"}, pieces=[b": hello\n\n"], gate=gate, breaks=True)
    arguments = job(late, of_events(PLACED, happened("job.succeeded", 9)))
    api.on("GET", f"/v1/logs/{JOB_ID}/follow", late, of_events(chunk("late\n"), END))
    threading.Timer(0.3, gate.set).start()
    assert "[worker-0] late\n" in command(*arguments).out


def test_logs_that_never_end_are_not_waited_for_for_ever(
    command: Command, job: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "LOG_GRACE_S", 0.0)
    gate = threading.Event()
    silent = Answer(headers={"Content-Type": "text/event-stream"}, pieces=[b": hello\n\n"], gate=gate)
    events = of_events(PLACED, happened("job.stopped", 9))
    assert command(*job(silent, events, "Stopped")).code == ExitCode.JOB_STOPPED
    gate.set()


def test_logs_of_a_job_that_never_ran_are_not_waited_for(command: Command, job: Callable[..., list[str]]) -> None:
    gate = threading.Event()
    silent = Answer(headers={"Content-Type": "text/event-stream"}, pieces=[b": hello\n\n"], gate=gate)
    assert command(*job(silent, of_events(happened("job.stopped", 9)), "Stopped")).code == ExitCode.JOB_STOPPED
    gate.set()


def test_a_broken_connection_is_told_and_overcome(
    command: Command, job: Callable[..., list[str]], api: FakePlatform
) -> None:
    arguments = job(of_events(chunk("a\n"), END), of_events(PLACED, happened("job.succeeded", 9)))
    api.on(
        "GET",
        f"/v1/jobs/{JOB_ID}/events",
        of_events(happened("job.submitted", 1), breaks=True),
        of_events(happened("job.succeeded", 9)),
    )
    outcome = command(*arguments)
    assert outcome.code == ExitCode.OK
    assert "connection lost, trying again" in outcome.err
    assert "connected again" in outcome.err
    assert api.asked("GET", f"/v1/jobs/{JOB_ID}/events")[1].headers["Last-Event-ID"] == "1"


def test_what_a_stream_cannot_overcome_ends_the_command(
    command: Command, job: Callable[..., list[str]], api: FakePlatform
) -> None:
    arguments = job(of_events(END), of_events())
    api.on("GET", f"/v1/jobs/{JOB_ID}/events", problem(401, "unauthenticated", "the token is too old"))
    outcome = command(*arguments)
    assert outcome.code == ExitCode.AUTH
    assert "the token is too old" in outcome.err


def test_a_job_whose_last_event_was_missed_is_asked_for_its_state(
    command: Command, job: Callable[..., list[str]]
) -> None:
    assert command(*job(of_events(END), of_events(("8", "end", {})), "Failed")).code == ExitCode.JOB_FAILED


def test_control_c_leaves_the_job_running_and_says_so(
    command: Command, job: Callable[..., list[str]], api: FakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_self: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(following.JobFollower, "run", interrupt)
    outcome = command(*job(of_events(), of_events()))
    assert outcome.code == ExitCode.INTERRUPTED
    assert f"`trainmaster logs {JOB_ID} -f` follows it" in outcome.err
    assert api.asked("POST", f"/v1/jobs/{JOB_ID}/stop") == []


def test_with_json_standard_output_has_the_job_as_it_ended_and_nothing_else(
    command: Command, job: Callable[..., list[str]]
) -> None:
    arguments = job(of_events(chunk("hello\n"), END), of_events(PLACED, happened("job.succeeded", 9)))
    outcome = command(*arguments, "-o", "json")
    assert outcome.json == job_document("Succeeded")
    assert "[worker-0] hello" in outcome.err
