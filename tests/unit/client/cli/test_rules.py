"""`trainmaster rules test` sends a log, or a job's stored ones, and shows what the rules make of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.fake_platform import FakePlatform, of_json
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
