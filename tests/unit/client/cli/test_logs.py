from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_platform import Answer, FakePlatform, of_events, of_json
from tests.support.job_documents import JOB_ID, event_document, job_document
from trainmaster.errors import ExitCode

Command = Callable[..., Any]
RAW = b"one\n10%\r20%\r\n\x1b[31mred\x1b[0m \x1b]0;title\x07\xff\xfe\nlast"


def source(role: str = "worker", index: int = 0, attempt: int = 1) -> dict[str, Any]:
    return {"attempt": attempt, "role": role, "index": index, "size": 9, "ended": True}


def log(api: FakePlatform, content: bytes, role: str = "worker", index: int = 0, attempt: int = 1) -> None:
    headers = {"Tm-Offset": "0", "Tm-Next-Offset": str(len(content)), "Tm-Size": str(len(content)), "Tm-Ended": "true"}
    api.on("GET", f"/v1/logs/mnist/{attempt}/{role}/{index}", Answer(200, content, headers))


@pytest.fixture
def one(api: FakePlatform) -> FakePlatform:
    """A job with one replica."""
    api.on("GET", "/v1/logs/mnist", of_json({"replicas": [source()]}))
    log(api, RAW)
    return api


@pytest.fixture
def many(api: FakePlatform) -> FakePlatform:
    """A job of two roles in its second attempt."""
    replicas = [source(attempt=1), source(attempt=2), source("master", 0, 2), source(index=1, attempt=2)]
    api.on("GET", "/v1/logs/mnist", of_json({"replicas": replicas}))
    log(api, b"old\n")
    log(api, b"w0\n", attempt=2)
    log(api, b"w1 a\nw1 b\n", index=1, attempt=2)
    log(api, b"m\n", role="master", attempt=2)
    return api


class TestOneReplica:
    def test_its_lines_are_printed_without_what_would_steer_the_terminal(
        self, command: Command, one: FakePlatform
    ) -> None:
        assert (
            command("logs", "mnist").out == "one\n20%\nred \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\nlast\n"
        )

    def test_raw_prints_the_very_bytes(self, command: Command, one: FakePlatform) -> None:
        assert command("logs", "mnist", "--raw").out.encode(errors="surrogateescape") == RAW
        assert one.requests[1].query["raw"] == ["true"]

    def test_the_tail_is_cut_by_the_platform(self, command: Command, one: FakePlatform) -> None:
        command("logs", "mnist", "--tail", "2")
        assert one.requests[1].query["tail"] == ["2"]

    def test_json_prints_a_chunk_a_line(self, command: Command, one: FakePlatform) -> None:
        (line,) = command("logs", "mnist", "-o", "json").out.splitlines()
        assert json.loads(line) == {
            "attempt": 1,
            "role": "worker",
            "index": 0,
            "offset": 0,
            "text": RAW.decode(errors="replace"),
        }


class TestManyReplicas:
    def test_all_of_the_last_attempt_are_printed_with_their_names(self, command: Command, many: FakePlatform) -> None:
        assert command("logs", "mnist").out.splitlines() == [
            "[master-0 #2] m",
            "[worker-0 #2] w0",
            "[worker-1 #2] w1 a",
            "[worker-1 #2] w1 b",
        ]

    @pytest.mark.parametrize(
        ("arguments", "out"),
        [
            (("--attempt", "1"), "old\n"),
            (("--role", "master"), "m\n"),
            (("--index", "1"), "w1 a\nw1 b\n"),
            (("--role", "worker", "--index", "0"), "w0\n"),
        ],
    )
    def test_they_can_be_chosen(
        self, command: Command, many: FakePlatform, arguments: tuple[str, ...], out: str
    ) -> None:
        assert command("logs", "mnist", *arguments).out == out

    def test_grep_keeps_matching_lines_and_tail_counts_those(self, command: Command, many: FakePlatform) -> None:
        assert command("logs", "mnist", "--index", "1", "--grep", "^w1 [ab]$", "--tail", "1").out == "w1 b\n"
        assert "tail" not in many.requests[-1].query

    def test_raw_is_refused_for_several(self, command: Command, many: FakePlatform) -> None:
        outcome = command("logs", "mnist", "--raw")
        assert outcome.code == ExitCode.INVALID
        assert "--role" in outcome.err

    def test_a_choice_that_matches_none_is_answered_with_what_there_is(
        self, command: Command, many: FakePlatform
    ) -> None:
        outcome = command("logs", "mnist", "--role", "ps")
        assert outcome.code == ExitCode.INVALID
        assert "master-0 of attempt 2" in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [("--grep", "("), ("--raw", "--grep", "x"), ("--raw", "-o", "json"), ("--tail", "-1"), ("--attempt", "0")],
)
def test_what_makes_no_sense_is_not_asked(command: Command, api: FakePlatform, arguments: tuple[str, ...]) -> None:
    assert command("logs", "mnist", *arguments).code == ExitCode.INVALID
    assert api.requests == []


class TestFollow:
    CHUNK = ("c1", "chunk", {"attempt": 1, "role": "worker", "index": 0, "offset": 0, "text": "a\x1b[2Jb\r\nfound\n"})
    END = ("c2", "end", {})

    @pytest.fixture
    def followed(self, api: FakePlatform) -> FakePlatform:
        placed, failed = event_document("job.placed"), event_document("job.failed")
        api.on("GET", f"/v1/logs/{JOB_ID}/follow", of_events(self.CHUNK, self.END))
        api.on("GET", f"/v1/jobs/{JOB_ID}/events", of_events(("8", None, placed), ("9", None, failed)))
        api.on("GET", "/v1/jobs/mnist", of_json(job_document("Running")))
        return api

    def test_it_ends_with_the_job_and_well_however_that_ended(self, command: Command, followed: FakePlatform) -> None:
        outcome = command("logs", "mnist", "-f", "--tail", "3")
        assert (outcome.code, outcome.out) == (0, "[worker-0] ab\n[worker-0] found\n")
        assert followed.asked("GET", f"/v1/logs/{JOB_ID}/follow")[0].query == {"tail": ["3"]}

    def test_matching_lines_can_be_chosen(self, command: Command, followed: FakePlatform) -> None:
        assert command("logs", "mnist", "-f", "--grep", "fo+").out == "[worker-0] found\n"

    def test_one_replica_can_be_followed_raw(self, command: Command, followed: FakePlatform) -> None:
        out = command("logs", "mnist", "-f", "--raw", "--role", "worker", "--index", "0").out
        assert out == self.CHUNK[2]["text"]

    def test_several_cannot(self, command: Command, followed: FakePlatform) -> None:
        assert command("logs", "mnist", "-f", "--raw").code == ExitCode.INVALID

    def test_one_replica_ends_before_the_job(self, command: Command, followed: FakePlatform) -> None:
        followed.on("GET", f"/v1/jobs/{JOB_ID}/events", of_events(("1", None, event_document("job.started"))))
        assert command("logs", "mnist", "-f", "--index", "0").out.endswith("found\n")


class TestSilence:
    @pytest.fixture
    def silent(self, api: FakePlatform) -> Callable[..., None]:
        """Scripts a job of which there are no logs."""

        def script(state: str, **status: Any) -> None:
            api.on("GET", "/v1/logs/mnist", of_json({"replicas": []}))
            api.on("GET", "/v1/jobs/mnist", of_json(job_document(state, **status)))

        return script

    @pytest.mark.parametrize(
        ("state", "status", "sentence"),
        [
            ("Running", {}, "mnist-ddp has written nothing so far"),
            ("Succeeded", {}, "mnist-ddp wrote nothing"),
            ("Stopped", {"attempts": []}, "mnist-ddp never ran"),
            ("Queued", {"attempts": []}, "mnist-ddp does not run yet: `trainmaster explain mnist-ddp`"),
        ],
    )
    def test_it_is_told_by_what_the_job_does(
        self, command: Command, silent: Callable[..., None], state: str, status: dict[str, Any], sentence: str
    ) -> None:
        silent(state, **status)
        outcome = command("logs", "mnist")
        assert (outcome.code, outcome.out, outcome.err) == (0, "", f"{sentence}\n")

    def test_an_empty_log_is_told_like_none(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/logs/mnist", of_json({"replicas": [source() | {"size": 0}]}))
        api.on("GET", "/v1/jobs/mnist", of_json(job_document("Succeeded")))
        assert command("logs", "mnist").err == "mnist-ddp wrote nothing\n"
