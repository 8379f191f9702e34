"""What became of a replica, from everything that is known of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from services.scheduler.engines.kubernetes.gangs import GangSeen
from services.scheduler.engines.kubernetes.pods import Ended, PodSeen
from services.scheduler.engines.kubernetes.verdicts import Evidence, LastSeen, NodeLoss, verdict
from services.scheduler.ports.reports import ReplicaRef
from shared.events import ReplicaExit
from shared.ids import GangId
from tests.support.jobs import START

KEY = ("worker", 0)
REF = ReplicaRef("tj-abcdefghijkl", 1, "worker", 0, "n-1")
NOW = START + timedelta(minutes=5)
LATER = START + timedelta(minutes=1)
LONG_BEFORE = START - timedelta(minutes=1)
POD = PodSeen("jobs", REF.id, "uid", REF.gang, "worker", 0, node="node-a")
RUNNING = replace(POD, started_at=START)
CREATING = GangSeen(GangId(REF.gang), "jobs", "uid", 1, "creating", {KEY: REF})
RELEASED = replace(CREATING, phase="released", released_at=START)
STOPPING = replace(RELEASED, phase="stopping", stopped_at=LATER)


def exited(code: int = 143) -> Ended:
    return Ended(LATER, ReplicaExit(code=code))


def test_a_pod_says_that_it_runs_or_what_it_waits_for():
    assert verdict(RELEASED, Evidence(RUNNING), NOW).started_at == START
    assert verdict(RELEASED, Evidence(replace(POD, waiting="image")), NOW).waiting == "image"


def test_a_pod_that_is_being_deleted_waits_for_nothing_new():
    deleted = replace(POD, waiting="its node prepares the container", deleted_at=LATER)
    assert verdict(STOPPING, Evidence(deleted), NOW).waiting == ""


def test_an_end_is_told_as_the_pod_has_it_also_after_the_pod_is_gone():
    ended = replace(RUNNING, ended=exited(3))
    assert verdict(RELEASED, Evidence(ended), NOW).ended == exited(3)
    assert verdict(RELEASED, Evidence(gone=LastSeen(ended, NOW)), NOW).ended == exited(3)


def test_an_end_after_our_own_deletion_is_a_stop_with_its_code():
    ended = replace(RUNNING, ended=exited(), deleted_at=LATER)
    assert verdict(STOPPING, Evidence(ended), NOW).ended.exit == ReplicaExit(code=143, cause="stopped")


def test_an_end_before_our_deletion_stays_what_it_was():
    ended = replace(RUNNING, ended=exited(3), deleted_at=LATER + timedelta(seconds=30))
    late_stop = replace(STOPPING, stopped_at=LATER + timedelta(seconds=20))
    assert verdict(late_stop, Evidence(ended), NOW).ended.exit.cause == "exited"


def test_an_end_after_our_stop_is_one_of_it_though_only_the_kubelets_last_deletion_was_seen():
    ended = replace(RUNNING, ended=exited(), deleted_at=LATER + timedelta(seconds=30))
    assert verdict(STOPPING, Evidence(ended), NOW).ended.exit.cause == "stopped"


def test_an_end_after_somebody_elses_deletion_is_lost_and_says_whose():
    ended = replace(RUNNING, ended=exited(), deleted_at=LATER)
    assert verdict(RELEASED, Evidence(ended), NOW).ended.exit.message == "somebody deleted its pod"
    drained = replace(ended, disruption="it was evicted")
    found = verdict(RELEASED, Evidence(drained), NOW).ended.exit
    assert (found.cause, found.message, found.code) == ("lost", "it was evicted", 143)


def test_a_pod_that_vanished_is_told_from_one_that_ended():
    found = verdict(RELEASED, Evidence(gone=LastSeen(RUNNING, NOW)), NOW).ended.exit
    assert (found.cause, found.message) == ("lost", "its pod vanished: somebody deleted its pod")


def test_a_pod_that_was_removed_before_it_started_never_started():
    released = verdict(RELEASED, Evidence(gone=LastSeen(POD, NOW)), NOW).ended.exit
    assert (released.cause, released.message) == ("never-started", "somebody deleted its pod")
    stopped = verdict(STOPPING, Evidence(gone=LastSeen(POD, NOW)), NOW).ended.exit
    assert (stopped.cause, stopped.message) == ("never-started", "the gang was stopped before it was started")


def test_a_container_that_a_deletion_kept_from_being_made_is_no_failure_of_its_own():
    said = ReplicaExit(cause="never-started", message="its container could not be started (ContainerStatusUnknown)")
    before_the_stop = LATER - timedelta(seconds=1)  # times of pods are whole seconds
    deleted = replace(POD, ended=Ended(before_the_stop, said), deleted_at=before_the_stop)
    stopped = verdict(STOPPING, Evidence(deleted), NOW).ended
    assert (stopped.at, stopped.exit.message) == (LATER, "the gang was stopped before it was started")
    assert verdict(RELEASED, Evidence(deleted), NOW).ended.exit.message == "somebody deleted its pod"
    long_before = replace(deleted, deleted_at=LATER + timedelta(seconds=30), ended=Ended(LONG_BEFORE, said))
    assert verdict(STOPPING, Evidence(long_before), NOW).ended.exit == said


def test_a_place_that_others_had_taken_is_told_even_if_the_pod_is_deleted_at_once():
    taken = ReplicaExit(cause="never-started", message="others hold it", displaced=True)
    deleted = replace(POD, ended=Ended(LATER, taken), deleted_at=LATER)
    assert verdict(STOPPING, Evidence(deleted), NOW).ended.exit == taken


def test_a_stopped_pod_that_never_told_its_end_is_stopped_nevertheless():
    assert verdict(STOPPING, Evidence(gone=LastSeen(RUNNING, NOW)), NOW).ended.exit.cause == "stopped"


def test_a_pod_on_a_lost_node_is_lost_with_it_unless_it_had_ended():
    loss = NodeLoss("node-a", LATER, "silent")
    found = verdict(RELEASED, Evidence(RUNNING, loss=loss), NOW).ended
    assert (found.at, found.exit.cause, found.exit.message) == (LATER, "lost", "its node node-a was lost (silent)")
    assert verdict(RELEASED, Evidence(replace(RUNNING, ended=exited(0)), loss=loss), NOW).ended == exited(0)


def test_nothing_is_concluded_from_a_pod_that_may_yet_be_made():
    for evidence in (Evidence(), Evidence(listed=True)):
        assert verdict(CREATING, Evidence(gone=LastSeen(POD, NOW)), NOW) == verdict(CREATING, Evidence(), NOW)
        assert verdict(CREATING, replace(evidence, listed=False), NOW).ended is None
    assert verdict(RELEASED, Evidence(), NOW).ended is None


def test_a_pod_that_a_list_from_after_the_release_lacks_has_vanished():
    found = verdict(RELEASED, Evidence(listed=True), NOW).ended.exit
    assert (found.cause, found.message) == ("lost", "its pod vanished while nobody watched")
    assert verdict(STOPPING, Evidence(listed=True), NOW).ended.exit.cause == "stopped"


def test_a_gang_that_is_stopped_before_its_release_never_started():
    stopped = replace(STOPPING, released_at=None)
    found = verdict(stopped, Evidence(), NOW).ended
    assert (found.at, found.exit.cause) == (LATER, "never-started")


def test_what_is_noted_is_the_end():
    assert verdict(RELEASED, Evidence(gone=LastSeen(RUNNING, NOW), noted=exited(7)), NOW).ended == exited(7)
