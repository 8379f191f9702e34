"""What documents of pods say in words."""

from __future__ import annotations

import pytest

from services.scheduler.engines.kubernetes.pods import pod_seen
from shared.clock import parse_rfc3339
from shared.events import OutOfMemory
from tests.support.kubernetes.documents import (
    ENDED,
    STARTED,
    container,
    disrupted,
    failed,
    pod_document,
    running,
    terminated,
    waiting,
)


def exit_of(status):
    return pod_seen(pod_document(status=status)).ended.exit


def test_a_pod_is_the_replica_that_its_labels_say():
    seen = pod_seen(pod_document(index=3))
    assert (seen.gang, seen.key, seen.node) == ("tj-abcdefghijkl-1", ("worker", 3), "node-a")


def test_a_pod_without_these_labels_is_no_replica():
    assert pod_seen(pod_document(labels={"app": "something"})) is None


def test_a_running_container_tells_since_when():
    seen = pod_seen(pod_document(status=running()))
    assert seen.started_at == parse_rfc3339(STARTED)
    assert seen.ended is None
    assert not seen.waiting


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (waiting("ImagePullBackOff", "not found"), "the image registry.example/train:1 cannot be pulled"),
        (waiting("InvalidImageName"), "the image registry.example/train:1 cannot be pulled (InvalidImageName)"),
        (waiting("CreateContainerConfigError", 'secret "x" not found'), 'cannot be set up (secret "x" not found)'),
        (waiting("ContainerCreating"), "its node prepares the container"),
        (waiting("SomethingNew"), "its container waits (SomethingNew)"),
    ],
)
def test_what_a_container_waits_for_is_told(status, words):
    assert words in pod_seen(pod_document(status=status)).waiting


def test_a_pod_for_which_there_is_no_node_says_why():
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    seen = pod_seen(pod_document(node="", status={"phase": "Pending", "conditions": [condition]}))
    assert seen.waiting == "no node can take it (0/3 nodes)"


def test_a_pod_of_which_its_scheduler_says_nothing_waits_for_that_unless_a_gate_holds_it_back():
    pod = pod_document(node="", status={"phase": "Pending"})
    pod["spec"] |= {"schedulerName": "volcano"}
    assert pod_seen(pod).waiting == "volcano has chosen no node for it yet"
    pod["spec"] |= {"schedulingGates": [{"name": "held"}]}
    assert not pod_seen(pod).waiting


def test_an_init_container_that_waits_or_works_is_told_before_the_command():
    pulling = container({"waiting": {"reason": "ErrImagePull", "message": "denied"}}, "code")
    status = {**waiting("PodInitializing"), "initContainerStatuses": [pulling]}
    assert "cannot be pulled (ErrImagePull: denied)" in pod_seen(pod_document(status=status)).waiting
    status = {**status, "initContainerStatuses": [container({"running": {"startedAt": STARTED}}, "code")]}
    assert pod_seen(pod_document(status=status)).waiting == "its init container code is at work"


def test_an_exit_code_is_told_with_its_time():
    ended = pod_seen(pod_document(status=terminated(3))).ended
    assert (ended.exit.code, ended.exit.cause, ended.at) == (3, "exited", parse_rfc3339(ENDED))


def test_a_signal_is_told_where_the_runtime_tells_it():
    assert exit_of(terminated(139, signal=11)).signal == 11


def test_out_of_memory_is_certain():
    end = exit_of(terminated(137, "OOMKilled"))
    assert (end.signal, end.out_of_memory) == (9, OutOfMemory.CERTAIN)


def test_a_command_that_ended_by_itself_after_a_process_of_it_ran_out_of_memory_keeps_its_code():
    end = exit_of(terminated(1, "OOMKilled"))
    assert (end.code, end.signal, end.out_of_memory) == (1, None, OutOfMemory.CERTAIN)


def test_a_container_that_never_started_did_not_exit():
    never = {"exitCode": 128, "reason": "StartError", "message": "no such file", "startedAt": "1970-01-01T00:00:00Z"}
    status = {"phase": "Failed", "containerStatuses": [container({"terminated": {**never, "finishedAt": ENDED}})]}
    seen = pod_seen(pod_document(status=status))
    assert seen.started_at is None
    assert (seen.ended.exit.cause, seen.ended.exit.message) == (
        "never-started",
        "its container could not be started (StartError: no such file)",
    )


def test_a_failed_init_container_keeps_the_command_from_starting_and_says_why():
    failed_init = container({"terminated": {"exitCode": 2, "message": "no such archive", "finishedAt": ENDED}}, "code")
    status = {**waiting("PodInitializing"), "phase": "Failed", "initContainerStatuses": [failed_init]}
    end = exit_of(status)
    assert end.cause == "never-started"
    assert end.message == "its init container code exited with code 2: no such archive"


@pytest.mark.parametrize("reason", ["OutOfcpu", "OutOfmemory", "OutOfnvidia.com/gpu", "UnexpectedAdmissionError"])
def test_a_node_that_refuses_a_pod_displaces_the_replica(reason):
    end = exit_of(failed(reason, "Node didn't have enough resource"))
    assert (end.cause, end.displaced) == ("never-started", True)
    assert reason in end.message


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (failed("Evicted", "low on memory", **{**running(), "phase": "Failed"}), "its node evicted it (low on memory)"),
        (
            {**terminated(137), "reason": "Preempting", "message": "for etcd"},
            "made room for a pod of the system (for etcd)",
        ),
        ({**terminated(137), "reason": "Terminated", "message": "node shutdown"}, "its node was shut down"),
        ({**terminated(143), **disrupted("PreemptionByScheduler", "for x")}, "preempted it for a pod of higher"),
        ({**terminated(143), **disrupted("EvictionByEvictionAPI")}, "evicted through the API"),
        ({**terminated(143), **disrupted("DeletionByTaintManager")}, "its node was lost or closed"),
        (terminated(137, "ContainerStatusUnknown"), "its node does not know how it ended"),
    ],
)
def test_a_replica_that_was_thrown_out_is_lost_and_says_why(status, words):
    end = exit_of(status)
    assert end.cause == "lost"
    assert words in end.message


def test_a_pod_that_was_thrown_out_before_it_started_never_started():
    assert exit_of(failed("Evicted", "low on disk")).cause == "never-started"


def test_a_command_that_had_succeeded_before_a_disruption_has_succeeded():
    assert exit_of({**terminated(0, "Completed"), **disrupted("EvictionByEvictionAPI")}).succeeded


def test_a_pod_that_only_says_that_it_is_over_is_believed():
    assert exit_of({"phase": "Succeeded", "startTime": STARTED}).succeeded
    assert "its pod failed (Whatever)" in exit_of(failed("Whatever")).message


def test_a_deletion_is_told_with_the_time_at_which_it_was_asked_for():
    document = pod_document(deletionTimestamp="2026-01-01T00:01:00Z", deletionGracePeriodSeconds=30)
    assert pod_seen(document).deleted_at == parse_rfc3339("2026-01-01T00:00:30Z")
