"""`trainmaster rules test` sends a log, or a job's stored ones, and shows what the rules make of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.fake_platform import FakePlatform, of_json
from tests.support.job_documents import attempt_document, job_document
from trainmaster.backtests import log_text

Command = Callable[..., Any]
MATCH = {"rule": "cuda-oom", "class": "user", "replica": "worker-0", "number": 7, "line": "CUDA out of", "wins": True}
ANSWER = {
    "matches": [MATCH, {**MATCH, "rule": "other", "wins": False}],
    "more": 0,
    "cause": {"rule": "cuda-oom", "class": "user"},
    "retry": False,
    "reason": "it would come again",
    "excludeNodes": False,
}


def test_a_file_is_tried(command: Command, api: FakePlatform, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"step 1\n\xffCUDA out of memory\n")
    api.on("POST", "/v1/rules/test", of_json(ANSWER))
    out = command("rules", "test", "-f", str(log), "--exit", "137").out
    assert "cuda-oom" in out
    assert "(other)" in out
    assert "root cause: cuda-oom (user)" in out
    assert "decision: no further attempt" in out
    sent = api.requests[0].json
    assert sent["exitCode"] == 137
    assert sent["logs"] == [{"role": "worker", "index": 0, "text": "step 1\n\ufffdCUDA out of memory\n"}]


def test_a_file_or_a_job_must_be_given(command: Command, tmp_path: Path) -> None:
    assert "give a log with -f FILE, or a job with --job JOB" in command("rules", "test").err


def test_of_a_long_log_the_last_part_is_sent() -> None:
    text = log_text(b"a" * 10 + b"end", most=3)
    assert (text.text, text.cut) == ("end", True)


def test_of_a_stored_job_failed_replicas_are_tried_with_the_times_of_their_lines(
    command: Command, api: FakePlatform
) -> None:
    attempt = attempt_document(0, 1, 9)
    for replica, cause, second in zip(attempt["replicas"], ("exited", "stopped", "exited"), (9, 8, 7), strict=True):
        replica |= {"exit": replica["exit"] | {"cause": cause}, "endedAt": f"2026-01-02T12:03:0{second}.000Z"}
    api.on("GET", "/v1/jobs/mnist", of_json(job_document("Failed", attempts=[attempt])))
    log = {"attempt": 1, "role": "worker", "size": 9, "ended": True}
    api.on("GET", "/v1/logs/mnist", of_json({"replicas": [log | {"index": index} for index in range(3)]}))
    line = {"role": "worker", "index": 2, "offset": 0}
    times = ("2026-01-02T12:03:00.000Z", "2026-01-02T12:03:00.000Z", "2026-01-02T12:03:01.500Z")
    lines = [line | {"time": time, "text": f"line {number}"} for number, time in enumerate(times)]
    api.on("GET", "/v1/logs/mnist/lines", of_json({"attempt": 1, "items": lines, "next": None}))
    api.on("POST", "/v1/rules/test", of_json(ANSWER))
    assert "root cause: cuda-oom" in command("rules", "test", "--job", "mnist").out
    sent = api.requests[-1].json
    assert [(each["role"], each["index"]) for each in sent["logs"]] == [("worker", 2), ("worker", 1)]
    assert sent["exitCode"] == 9
    assert sent["logs"][0]["text"] == "line 0\nline 1\nline 2\n"
    assert sent["logs"][0]["times"] == [[1, 1_767_355_380_000], [3, 1_767_355_381_500]]
