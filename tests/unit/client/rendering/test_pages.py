"""What describe and explain are made of: the page of a job, its placement, an explanation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.support.job_documents import attempt_document, job_document
from trainmaster.documents import Explanation, Job
from trainmaster.rendering.description import MOST_BAD_NODES, description
from trainmaster.rendering.explanation import explanation
from trainmaster.rendering.placement import MOST_ROWS, placement

NOW = datetime(2026, 1, 2, 13, 0, tzinfo=UTC)
Shown = Callable[..., list[str]]


def page(shown: Shown, document: dict[str, Any]) -> str:
    return "\n".join(shown(description(Job.of(document), NOW)))


class TestDescription:
    def test_the_facts_roles_mounts_and_attempts_are_there(self, shown: Shown) -> None:
        text = page(shown, job_document())
        for line in (
            "Started    2026-01-02 12:00:01Z, after 1.5s",
            "Ran        3m10s",
            "worker  2         public  cpu-small      torchrun train.py",
            "/mnt/data  storage  team    -         read and write",
            "Attempt 1, cluster main, queued 0.2s, ran 3m10s",
            "decided: no further attempt, all replicas succeeded",
        ):
            assert line in text.splitlines()

    def test_a_running_job_runs_until_now(self, shown: Shown) -> None:
        assert "Ran        59m58s" in page(shown, job_document("Running", endedAt=None)).splitlines()

    def test_a_waiting_job_is_not_placed_yet(self, shown: Shown) -> None:
        waiting = job_document("Queued", startedAt=None, endedAt=None, attempts=[{"number": 1}])
        assert "not placed yet" in page(shown, waiting)

    def test_why_it_failed_stands_beside_the_state(self, shown: Shown) -> None:
        text = page(shown, job_document("Failed", reason="failed", message="worker-0 exited 3"))
        assert "State      Failed  (worker-0 exited 3)" in text.splitlines()

    def test_code_is_told_by_where_it_comes_from(self, shown: Shown) -> None:
        for code, told in (
            ({"source": "my-code", "revision": "main"}, "my-code at main"),
            ({"upload": "sha256:abc"}, "sha256:abc"),
            ({"inline": {"a.py": "x", "b.py": "y"}}, "inline: a.py, b.py"),
        ):
            document = job_document()
            document["spec"]["code"] = code
            assert f"Code       {told}" in page(shown, document).splitlines()

    def test_a_start_command_of_several_lines_keeps_to_its_row(self, shown: Shown) -> None:
        document = job_document()
        document["spec"]["roles"][0]["command"] = "set -e\npython train.py\n"
        assert r"set -e\npython train.py" in page(shown, document)

    def test_what_was_noticed_and_decided_is_told_with_its_line(self, shown: Shown) -> None:
        attempt = attempt_document(1) | {
            "incidents": [
                {"rule": "message/1", "line": "boom", "replica": {"role": "w", "index": 1}, "action": "none"},
                {"rule": "ours", "line": "bang", "replica": None, "action": "none", "mode": "shadow"},
                {"rule": "hang", "line": "silent for 2s", "replica": None, "action": "stop"},
            ],
            "decision": {
                "retry": True,
                "reason": "w-0 failed",
                "rule": "message/1",
                "replica": {"role": "w", "index": 1},
                "line": "boom",
                "others": ["w-2 was lost"],
                "budgetLeft": 2,
                "notBefore": "2026-01-02T12:05:00.000Z",
            },
        }
        lines = page(shown, job_document(attempts=[attempt])).splitlines()
        assert lines[-6:] == [
            "noticed at - in w-1, message/1: boom",
            "noticed at -, ours (only being tried): bang",
            "noticed at -, hang, so the attempt is stopped: silent for 2s",
            "decided: another attempt, not before 2026-01-02 12:05:00Z (2 more possible), w-0 failed",
            "  w-1, message/1: boom",
            "  also: w-2 was lost",
        ]

    def test_a_diagnosis_is_told_with_its_bad_nodes(self, shown: Shown) -> None:
        times = {"requestedAt": "2026-01-02T12:00:00.200Z", "finishedAt": "2026-01-02T12:00:01.200Z"}
        sound = {"nodeName": "alpha", "passed": True, "problems": []}
        bad = {"nodeName": "beta", "passed": False, "problems": ["CPU 0 computes wrong"]}
        failed = {"passed": False, "badNodes": ["beta"], "nodes": [sound, bad], **times}
        for diagnosis, told in (
            (failed, ["diagnosis: failed at 2026-01-02 12:00:01Z, after 1.0s: beta", "  beta: CPU 0 computes wrong"]),
            (
                {"passed": True, "badNodes": [], "nodes": [sound], **times},
                ["diagnosis: all nodes passed (1) at 2026-01-02 12:00:01Z, after 1.0s"],
            ),
            (
                {"passed": True, "badNodes": [], "nodes": [sound | {"doubts": ["a test with beta failed"]}], **times},
                [
                    "diagnosis: all nodes passed (1) at 2026-01-02 12:00:01Z, after 1.0s",
                    "  alpha, doubtful: a test with beta failed",
                ],
            ),
            (
                {
                    **times,
                    "passed": True,
                    "badNodes": [],
                    "nodeCount": 2,
                    "nodes": [sound, sound | {"nodeName": "beta", "untested": "a job was on it already"}],
                },
                [
                    "diagnosis: no node failed, but 1 of 2 were not tested, at 2026-01-02 12:00:01Z, after 1.0s",
                    "  beta, not tested: a job was on it already",
                ],
            ),
            (
                {**times, "finishedAt": None, "passed": None, "badNodes": [], "nodes": []},
                ["diagnosis: asked for at 2026-01-02 12:00:00Z, not finished"],
            ),
        ):
            lines = page(shown, job_document(attempts=[attempt_document() | {"diagnosis": diagnosis}])).splitlines()
            first = lines.index(told[0])
            assert lines[first : first + len(told)] == told

    def test_ranks_that_held_the_others_up_are_told_with_their_nodes(self, shown: Shown) -> None:
        slow = {"role": "worker", "index": 1, "rank": 1, "nodeName": "beta", "why": "rank 1 needs 40 ms"}
        burn_in = {"source": "hook", "ranks": 4, "lastStep": 130, "suspects": [slow] * 11, "message": ""}
        lines = page(shown, job_document(attempts=[attempt_document() | {"burnIn": burn_in}])).splitlines()
        assert lines.count("  beta, suspect: rank 1 needs 40 ms") == 10
        assert "  and 1 more suspect ranks" in lines

    def test_first_steps_that_could_not_be_compared_say_why(self, shown: Shown) -> None:
        burn_in = {"source": "hook", "ranks": 2, "lastStep": 130, "suspects": [], "message": "too few ranks"}
        text = page(shown, job_document(attempts=[attempt_document() | {"burnIn": burn_in}]))
        assert "first steps: 2 ranks up to step 130, by the hook: too few ranks" in text.splitlines()

    def test_replaced_nodes_are_told_with_their_reason(self, shown: Shown) -> None:
        replaced = {"at": "2026-01-02T12:00:03Z", "left": ["beta"], "taken": ["gamma"], "reason": "beta: slow"}
        text = page(shown, job_document(attempts=[attempt_document() | {"replaced": [replaced]}]))
        assert "replaced at 2026-01-02 12:00:03Z: beta by gamma, after the diagnosis: beta: slow" in text.splitlines()

    def test_of_many_bad_nodes_a_few_are_named(self, shown: Shown) -> None:
        diagnosis = {
            "requestedAt": "2026-01-02T12:00:00Z",
            "finishedAt": "2026-01-02T12:00:01Z",
            "passed": False,
            "badNodes": [f"node-{number}" for number in range(MOST_BAD_NODES + 5)],
            "nodes": [],
        }
        text = page(shown, job_document(attempts=[attempt_document() | {"diagnosis": diagnosis}]))
        assert "  and 5 more bad nodes" in text.splitlines()
        assert f"node-{MOST_BAD_NODES}" not in text


class TestPlacement:
    def test_a_line_a_replica(self, shown: Shown) -> None:
        attempt = Job.of(job_document(attempts=[attempt_document(137, 0)])).attempts[0]
        _, first, second = shown(placement(attempt))
        assert first.split() == ["worker-0", "public-main", "node-0", "GPU-0", "Failed", "12:00:01.000", "3m10s", "137"]
        assert second.split()[4] == "Succeeded"

    def test_thousands_are_summed_up_and_the_failed_ones_always_shown(self, shown: Shown) -> None:
        codes = [0] * 2000
        codes[1234] = 1
        lines = shown(placement(Job.of(job_document(attempts=[attempt_document(*codes)])).attempts[0]))
        assert len(lines) == MOST_ROWS + 2
        assert any(line.startswith("worker-1234 ") for line in lines)
        assert lines[-1] == f"and {2000 - MOST_ROWS} more: {2000 - MOST_ROWS} Succeeded"


class TestExplanation:
    def test_a_job_that_waits_for_nothing_is_one_line(self, shown: Shown) -> None:
        answer = Explanation.of({"state": "Running", "position": None, "summary": "it runs on 2 nodes"})
        assert shown(explanation(answer)) == ["Running: it runs on 2 nodes"]

    def test_amounts_have_the_unit_of_their_resource(self, shown: Shown) -> None:
        blockers = [
            {"role": "w", "resource": "memory", "needed": 8 * 1024**3, "available": 1536 * 1024**2, "total": 0},
            {"role": "w", "resource": "gpu", "needed": 8, "available": 0, "total": 4},
        ]
        lines = shown(explanation(Explanation.of({"state": "Queued", "summary": "x", "blockers": blockers})))
        assert lines[3].split() == ["w", "memory", "8", "GiB", "1.5", "GiB", "0", "B"]
        assert lines[4].split() == ["w", "gpu", "8", "0", "4"]
