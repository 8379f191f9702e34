"""The commands that show one job or do one thing to it: describe, events, explain, metrics, stop, delete."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_platform import Answer, FakePlatform, of_events, of_json, problem
from tests.support.job_documents import JOB_ID, attempt_document, event_document, job_document
from trainmaster.errors import ExitCode

Command = Callable[..., Any]
EVENTS = [event_document("job.submitted", 0), event_document("job.started", 1.5), event_document("job.succeeded", 9)]
EXPLANATION = {
    "job": JOB_ID,
    "state": "Queued",
    "position": 2,
    "summary": "waits for capacity",
    "blockers": [
        {"role": "worker", "resource": "cpu", "needed": 4000, "available": 1500, "total": 8000, "detail": "too little"}
    ],
    "suggestions": ["1 instead of 2 replicas"],
}
ACC = {"attempt": 2, "run": "", "tag": "acc", "count": 1, "steps": [1], "values": [0.5]}
CURVES = {"tags": [ACC, {**ACC, "tag": "loss", "count": 0, "steps": [], "values": []}]}


class TestDescribe:
    def test_a_job_is_shown_on_a_page(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/jobs/mnist", of_json(job_document()))
        out = command("describe", "mnist").out
        for told in ("mnist-ddp", "Succeeded", "torchrun train.py", "/mnt/data", "node-1", "GPU-1"):
            assert told in out

    def test_json_is_the_document(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/jobs/mnist", of_json(job_document()))
        assert command("describe", "mnist", "-o", "json").json == job_document()

    def test_one_attempt_can_be_chosen(self, command: Command, api: FakePlatform) -> None:
        attempts = [attempt_document(3), {**attempt_document(0, 0), "number": 2}]
        api.on("GET", "/v1/jobs/mnist", of_json(job_document(attempts=attempts)))
        out = command("describe", "mnist", "--attempt", "2").out
        assert "Attempt 2" in out
        assert "Attempt 1" not in out
        document = command("describe", "mnist", "--attempt", "1", "-o", "json").json
        assert document["status"]["attempts"] == attempts[:1]
        outcome = command("describe", "mnist", "--attempt", "3")
        assert outcome.code == ExitCode.INVALID
        assert "has no attempt 3; there are 1 to 2" in outcome.err

    def test_what_is_wrong_by_the_last_diagnosis_is_there_for_those_who_may_read_it(
        self, command: Command, api: FakePlatform
    ) -> None:
        asked = {"requestedAt": "2026-01-02T12:00:01Z", "finishedAt": "2026-01-02T12:00:05Z", "passed": True}
        diagnosed = {"diagnosis": {**asked, "badNodes": [], "message": "", "nodes": []}}
        api.on("GET", "/v1/jobs/mnist", of_json(job_document(attempts=[attempt_document() | diagnosed])))
        figure = {"name": "multiplication", "device": "cpu-0", "value": 90.5, "unit": "ms", "percentile": 60.0}
        report = {
            "id": f"{JOB_ID}-1",
            "state": "finished",
            "nodes": [{"name": "vm-1", "figures": [figure, {**figure, "device": "cpu-1", "why": "it is slow"}]}],
            "pairs": [],
        }
        assert "multiplication" not in command("describe", "mnist").out
        api.on("GET", f"/v1/diagnoses/{JOB_ID}-1", of_json(report))
        shown = command("describe", "mnist").out
        assert "vm-1  cpu-1   multiplication  90.5 ms" in shown
        assert "cpu-0" not in shown
        assert f"trainmaster diagnose --report {JOB_ID}-1" in shown

    def test_what_is_held_of_a_failed_attempt_is_told(self, command: Command, api: FakePlatform) -> None:
        document = job_document(attempts=[attempt_document(3)])
        document["spec"]["keepFor"] = "2h"
        api.on("GET", "/v1/jobs/mnist", of_json(document))
        kept = {"attempt": 1, "until": "2026-01-02T14:03:11.500Z", "machine": "m1", "path": "/home/tm/gangs/x-1"}
        api.on("GET", f"/v1/sandboxes/{JOB_ID}", of_json({"items": [kept], "next": None}))
        assert "sandbox of attempt 1 is held until" in command("describe", "mnist").out
        assert "at /home/tm/gangs/x-1 on m1" in command("describe", "mnist").out


class TestEvents:
    def test_the_history_is_a_table(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/jobs/mnist/events", of_json({"items": EVENTS}))
        lines = command("events", "mnist").out.splitlines()
        assert len(lines) == 4
        assert lines[2].split()[:4] == ["12:00:01.500", "+1.5s", "1", "started"]

    def test_json_is_the_answer(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/jobs/mnist/events", of_json({"items": EVENTS, "next": None}))
        assert command("events", "mnist", "-o", "json").json == {"items": EVENTS, "next": None}

    def test_following_prints_each_as_it_comes_and_ends_with_the_job(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/jobs/mnist/events", of_events(*((str(i), None, event) for i, event in enumerate(EVENTS))))
        outcome = command("events", "mnist", "-f")
        assert outcome.code == 0
        assert [line.split()[3] for line in outcome.out.splitlines()] == ["submitted", "started", "succeeded"]

    def test_following_with_json_prints_a_line_an_event(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/jobs/mnist/events", of_events(*((str(i), None, event) for i, event in enumerate(EVENTS))))
        out = command("events", "mnist", "-f", "-o", "json").out
        assert [json.loads(line) for line in out.splitlines()] == EVENTS

    def test_following_with_yaml_prints_a_document_an_event(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/jobs/mnist/events", of_events(("1", None, EVENTS[-1])))
        assert command("events", "mnist", "-f", "-o", "yaml").out.startswith("---\nspecversion: '1.0'\n")


class TestExplain:
    def test_what_a_job_waits_for_is_told_in_numbers(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/queue/mnist", of_json(EXPLANATION))
        lines = command("explain", "mnist").out.splitlines()
        assert lines[0] == "Queued, number 2 in the queue: waits for capacity"
        assert lines[3].split() == ["worker", "cpu", "4", "cores", "1.5", "cores", "8", "cores"]
        assert lines[-1] == "- 1 instead of 2 replicas"

    def test_json_is_the_answer(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/queue/mnist", of_json(EXPLANATION))
        assert command("explain", "mnist", "-o", "json").json == EXPLANATION


class TestMetrics:
    def test_curves_are_drawn(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/scalars/mnist", of_json(CURVES))
        out = command("metrics", "mnist", "--attempt", "2").out
        assert "acc" in out
        assert "1 point, first 0.5" in out
        assert "no point to draw" in out
        assert api.requests[0].query == {"attempt": ["2"]}

    def test_tags_can_be_chosen(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/scalars/mnist", of_json(CURVES))
        assert command("metrics", "mnist", "--tag", "loss", "-o", "json").json == {"tags": [CURVES["tags"][1]]}

    def test_a_tag_that_is_not_there_is_answered_with_those_that_are(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/scalars/mnist", of_json(CURVES))
        outcome = command("metrics", "mnist", "--tag", "Loss")
        assert outcome.code == ExitCode.INVALID
        assert "its tags are: acc, loss" in outcome.err

    def test_attempts_are_drawn_over_each_other_with_their_numbers(self, command: Command, api: FakePlatform) -> None:
        longer = {**ACC, "attempt": 1, "steps": [1, 2], "values": [0.1, 0.2]}
        api.on("GET", "/v1/scalars/mnist", of_json({"tags": [longer, ACC]}))
        out = command("metrics", "mnist", "--attempt", "all").out
        assert out.count("acc") == 1
        assert "attempt 1: 2 points" in out
        assert "attempt 2: 1 point" in out
        assert "1111" in out

    def test_csv_is_passed_on_as_it_comes(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/scalars/mnist/csv", Answer(200, b"attempt,run,tag\n", {"Content-Type": "text/csv"}))
        assert command("metrics", "mnist", "-o", "csv").out == "attempt,run,tag\n"

    def test_following_draws_again_with_what_came(self, command: Command, api: FakePlatform) -> None:
        first, more = {"tags": [ACC]}, {"tags": [{**ACC, "steps": [2], "values": [0.75]}]}
        api.on(
            "GET",
            "/v1/scalars/mnist/follow",
            of_events((None, "curves", first), (None, "points", more), (None, "end", {})),
        )
        out = command("metrics", "mnist", "-f").out
        assert "1 point, first 0.5" in out
        assert "2 points, first 0.5, lowest 0.5, highest 0.75, last 0.75 at step 2" in out

    def test_following_goes_with_no_csv(self, command: Command) -> None:
        assert command("metrics", "mnist", "-f", "-o", "csv").code == ExitCode.INVALID

    def test_a_job_without_scalars_is_no_error(self, command: Command, api: FakePlatform) -> None:
        api.on("GET", "/v1/scalars/mnist", of_json({"tags": []}))
        outcome = command("metrics", "mnist")
        assert (outcome.code, outcome.out) == (0, "")
        assert "no scalars" in outcome.err


class TestStop:
    def test_the_state_after_the_request_is_printed(self, command: Command, api: FakePlatform) -> None:
        api.on("POST", "/v1/jobs/mnist/stop", of_json(job_document("Stopping")))
        assert command("stop", "mnist").out == "Stopping\n"

    def test_waiting_prints_the_state_at_the_end(self, command: Command, api: FakePlatform) -> None:
        api.on("POST", "/v1/jobs/mnist/stop", of_json(job_document("Stopping")))
        api.on("GET", f"/v1/jobs/{JOB_ID}/events", of_events(("9", None, event_document("job.stopped"))))
        api.on("GET", f"/v1/jobs/{JOB_ID}", of_json(job_document("Stopped")))
        outcome = command("stop", "mnist", "--wait")
        assert (outcome.code, outcome.out) == (0, "Stopped\n")

    def test_a_job_that_has_ended_is_not_waited_for(self, command: Command, api: FakePlatform) -> None:
        api.on("POST", "/v1/jobs/mnist/stop", of_json(job_document("Succeeded")))
        assert command("stop", "mnist", "--wait").out == "Succeeded\n"

    def test_a_refusal_has_its_exit_code(self, command: Command, api: FakePlatform) -> None:
        api.on("POST", "/v1/jobs/mnist/stop", problem(409, "conflict", "it has ended"))
        assert command("stop", "mnist").code == ExitCode.CONFLICT


class TestDelete:
    @pytest.mark.parametrize(
        ("arguments", "path", "told"),
        [
            (("mnist",), "/v1/jobs/mnist", "job mnist deleted"),
            (("job", "mnist"), "/v1/jobs/mnist", "job mnist deleted"),
            (("instance-type", "big"), "/v1/instance-types/big", "instance-type big deleted"),
        ],
    )
    def test_a_job_by_its_name_and_all_else_by_kind_and_name(
        self, command: Command, api: FakePlatform, arguments: tuple[str, ...], path: str, told: str
    ) -> None:
        api.on("DELETE", path, Answer(204))
        outcome = command("delete", *arguments)
        assert (outcome.code, outcome.err) == (0, f"{told}\n")
        assert len(api.asked("DELETE", path)) == 1

    @pytest.mark.parametrize("arguments", [(), ("a", "b", "c"), ("node", "n1"), ("nonsense", "x")])
    def test_what_makes_no_sense_is_not_asked(
        self, command: Command, api: FakePlatform, arguments: tuple[str, ...]
    ) -> None:
        assert command("delete", *arguments).code == ExitCode.INVALID
        assert api.requests == []
