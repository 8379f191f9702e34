"""The job document, field by field."""

from __future__ import annotations

from services.submitter.domain.job_documents import JobDocument
from shared import events as ev
from tests.support.jobs import START, job_after, placed, submitted

ON_IT = "a job was on it already"


def test_a_failed_job_tells_who_failed_and_what_was_decided() -> None:
    exit_status = ev.ReplicaExit(code=3)
    changes = (
        ev.ReplicaChange(role="worker", index=0, state="started", at=START, node="n-1"),
        ev.ReplicaChange(role="worker", index=1, state="exited", at=START, node="n-1", exit=exit_status),
    )
    first = ev.ReplicaRef(role="worker", index=1)
    job = job_after(
        placed(2),
        ev.Started(),
        ev.ReplicasChanged(changes=changes),
        ev.AttemptEnded(reason=ev.EndReason.FAILED, message="worker-1 failed", first_failure=first, exit=exit_status),
        ev.RetryDecided(retry=False, reason="exit code 3"),
        ev.Failed(reason="failed", message="worker-1 ended with exit code 3"),
    )
    document = JobDocument.of(job).model_dump(mode="json")
    assert document["metadata"] == {
        "id": job.id,
        "name": "demo",
        "generateName": None,
        "owner": "ada",
        "project": "default",
        "labels": [],
        "createdAt": "2026-01-01T00:00:01.000Z",
        "sequence": job.sequence,
    }
    assert document["spec"] == submitted().spec
    status = document["status"]
    assert (status["state"], status["reason"], status["attempt"]) == ("Failed", "failed", 1)
    attempt = status["attempts"][0]
    assert attempt["decision"] == {
        "retry": False,
        "reason": "exit code 3",
        "rule": None,
        "rootCause": None,
        "replica": None,
        "line": None,
        "others": [],
        "budgetLeft": 0,
        "notBefore": None,
    }
    assert attempt["incidents"] == []
    assert attempt["endReason"] == "failed"
    running, failed = attempt["replicas"]
    assert (running["state"], running["exit"]) == ("Running", None)
    assert (failed["state"], failed["exit"]["code"], failed["exit"]["outOfMemory"]) == ("Failed", 3, "none")


def test_incidents_and_decisions_name_replica_and_line() -> None:
    ref = ev.ReplicaRef(role="worker", index=1)
    incident = ev.IncidentRaised(rule="message/1", line="boom", before=("a",), replica=ref, at=START)
    end = ev.AttemptEnded(reason=ev.EndReason.FAILED, first_failure=ref)
    decision = ev.RetryDecided(retry=True, reason="r", rule="message/1", replica=ref, line="boom", budget_left=2)
    told = JobDocument.of(job_after(placed(2), ev.Started(), incident, end, decision)).status.attempts[0]
    assert told.incidents[0].model_dump(mode="json") == {
        "rule": "message/1",
        "mode": "active",
        "line": "boom",
        "before": ["a"],
        "replica": {"role": "worker", "index": 1},
        "action": "none",
        "at": "2026-01-01T00:00:00.000Z",
    }
    assert told.decision is not None
    assert (told.decision.line, told.decision.budget_left) == ("boom", 2)


def test_a_diagnosis_tells_its_verdict_about_each_node() -> None:
    place = ev.RolePlacement(
        role="worker", pool="p-a", nodes=("n-1", "n-2"), node_of=(0, 1), node_names=("alpha", "beta")
    )
    asked = (
        ev.Placed(cluster="main", roles=(place,), diagnosing=True),
        ev.DiagnosisRequested(nodes=("n-1", "n-2")),
    )
    waiting = JobDocument.of(job_after(*asked)).status.attempts[0].diagnosis
    assert waiting is not None
    assert (waiting.passed, waiting.finished_at, waiting.nodes) == (None, None, [])
    findings = (
        ev.NodeFinding(node="n-1", figures={"gemm_ms": 3}, doubts=("a test failed",), verdict="amber", untested=ON_IT),
        ev.NodeFinding(node="n-2", problems=("CPU 0 computes wrong",)),
    )
    finished = ev.DiagnosisFinished(passed=False, bad_nodes=("n-2",), message="beta: CPU 0", findings=findings)
    job = job_after(*asked, finished)
    told = JobDocument.of(job).status.attempts[0].diagnosis
    assert told is not None
    assert (told.passed, told.bad_nodes, told.message) == (False, ["beta"], "beta: CPU 0")
    assert told.finished_at is not None
    assert [each.model_dump(mode="json") for each in told.nodes] == [
        {
            "node": "n-1",
            "nodeName": "alpha",
            "passed": True,
            "verdict": "amber",
            "problems": [],
            "doubts": ["a test failed"],
            "untested": ON_IT,
            "figures": {"gemm_ms": 3.0},
        },
        {
            "node": "n-2",
            "nodeName": "beta",
            "passed": False,
            "verdict": None,
            "problems": ["CPU 0 computes wrong"],
            "doubts": [],
            "untested": "",
            "figures": {},
        },
    ]
    assert JobDocument.of(job, detailed=False).status.attempts[0].diagnosis is None
    assert JobDocument.of(job_after(placed(1))).status.attempts[0].diagnosis is None


def test_devices_and_nodes_stand_by_index() -> None:
    placement = ev.RolePlacement(
        role="worker",
        pool="p-a",
        nodes=("n-1", "n-2"),
        node_of=(1, 0),
        node_names=("vm-1", "vm-2"),
        devices=(("gpu-1",), ("gpu-0",)),
    )
    job = job_after(ev.Placed(cluster="main", roles=(placement,)))
    attempt = JobDocument.of(job).status.attempts[0]
    place = attempt.placement.roles[0]
    assert (place.nodes, place.devices) == (["n-2", "n-1"], [["gpu-1"], ["gpu-0"]])
    assert place.node_names == ["vm-2", "vm-1"]
    assert [(replica.node, replica.node_name) for replica in attempt.replicas] == [("n-2", "vm-2"), ("n-1", "vm-1")]


def test_a_list_leaves_out_what_grows_with_replicas() -> None:
    attempt = JobDocument.of(job_after(placed(2)), detailed=False).status.attempts[0]
    assert (attempt.placement, attempt.replicas, attempt.incidents) == (None, [], [])


def test_replaced_nodes_are_told_by_their_names() -> None:
    diagnosing = placed(2).model_copy(update={"diagnosing": True})
    names = {"n-1": "vm-1", "n-2": "vm-2"}
    moved = ev.PlacementChanged(
        roles=placed(2, node="n-2").roles, left=("n-1",), taken=("n-2",), names=names, round=2, reason="vm-1: slow"
    )
    job = job_after(diagnosing, ev.DiagnosisFinished(passed=False, bad_nodes=("n-1",)), moved)
    attempt = JobDocument.of(job).model_dump(mode="json")["status"]["attempts"][0]
    (told,) = attempt["replaced"]
    assert (told["round"], told["left"], told["taken"], told["reason"]) == (2, ["vm-1"], ["vm-2"], "vm-1: slow")
    assert attempt["placement"]["roles"][0]["nodes"] == ["n-2", "n-2"]
    assert attempt["diagnosis"] is None


def test_ranks_that_stood_out_in_the_first_steps_are_told_with_the_names_of_their_nodes() -> None:
    slow = ev.SlowRank(
        role="worker", index=1, rank=1, node="n-1", compute_ms=40, middle_ms=20, windows=12, why="it needs 40 ms"
    )
    burn_in = ev.BurnInJudged(source="hook", ranks=4, last_step=130, middle_ms=20, suspects=(slow,))
    job = job_after(placed(2), ev.Started(), burn_in, ev.BurnInJudged(source="log", ranks=1, last_step=1))
    (attempt,) = JobDocument.of(job).model_dump(mode="json")["status"]["attempts"]
    assert (attempt["burnIn"]["source"], attempt["burnIn"]["lastStep"]) == ("hook", 130)
    (told,) = attempt["burnIn"]["suspects"]
    assert (told["rank"], told["nodeName"], told["computeMs"], told["why"]) == (1, "n-1", 40, "it needs 40 ms")
    (listed,) = JobDocument.of(job, detailed=False).status.attempts
    assert listed.burn_in is None
