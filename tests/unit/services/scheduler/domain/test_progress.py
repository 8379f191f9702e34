"""Why an attempt ends: the earliest of everything that ends it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.scheduler.domain.progress import (
    DISPLACEMENTS_MAX,
    Refusal,
    combine,
    describe_exit,
    endings,
    next_deadline,
    unreported,
)
from services.scheduler.domain.terms import EVIDENCE_S, LAST_WORDS_S, Terms
from shared.events import (
    AttemptEnded,
    EndReason,
    EvidenceCollected,
    IncidentRaised,
    OutOfMemory,
    Placed,
    Queued,
    ReplicaExit,
    RetryDecided,
    RolePlacement,
    StopRequested,
)
from shared.jobs import Replica
from tests.support.jobs import START
from tests.support.lives import Life


def running(roles=(("worker", 2),), **spec) -> Life:
    life = Life(spec=spec, roles=roles).place().look()
    for role, count in roles:
        for index in range(count):
            life.starts(role, index)
    return life.look()


def ends_of(life: Life):
    replicas = combine(life.job.attempt, life.engine.replicas)
    return endings(life.job, Terms.of(life.job), replicas, life.now)


def test_nothing_ends_an_attempt_that_runs():
    assert ends_of(running()) == ()


def test_an_attempt_is_complete_when_every_replica_succeeded():
    life = running().exits(index=0)
    assert ends_of(life) == ()
    life.wait(5).exits(index=1)
    (end,) = ends_of(life)
    assert (end.reason, end.at) == (EndReason.COMPLETED, life.now)


def test_an_attempt_is_complete_when_the_deciding_role_succeeded():
    life = running((("master", 1), ("worker", 2)), completion={"succeedWhen": "role:master"})
    assert ends_of(life.exits("worker", 0)) == ()
    (end,) = ends_of(life.exits("master", 0))
    assert end.reason is EndReason.COMPLETED
    assert end.stop_at == life.now


def test_the_first_failure_ends_the_attempt_and_leaves_time_for_last_words():
    life = running().exits(index=1, code=3)
    (end,) = ends_of(life)
    assert (end.reason, end.failure.index, end.failure.exit.code) == (EndReason.FAILED, 1, 3)
    assert end.stop_at == life.now + timedelta(seconds=LAST_WORDS_S)


def test_a_survivor_that_fails_later_is_not_the_reason():
    life = running().exits(index=1, code=3).wait(2).exits(index=0, code=1)
    assert [end.failure.index for end in ends_of(life)] == [1, 0]


def test_a_failure_before_the_deciding_role_succeeded_counts():
    life = running((("master", 1), ("worker", 1)), completion={"succeedWhen": "role:master"})
    life.exits("worker", 0, code=1).wait(1).exits("master", 0)
    assert ends_of(life)[0].reason is EndReason.FAILED


def test_a_failure_after_the_deciding_role_succeeded_does_not_count():
    life = running((("master", 1), ("worker", 1)), completion={"succeedWhen": "role:master"})
    life.exits("master", 0).wait(1).exits("worker", 0, code=1)
    assert ends_of(life)[0].reason is EndReason.COMPLETED


def test_a_gang_that_does_not_all_run_in_time_ends_by_its_start_timeout():
    life = Life(spec={"startTimeout": "60s"}).place().look().starts(index=0)
    assert ends_of(life.wait(59)) == ()
    (end,) = ends_of(life.wait(1))
    assert (end.reason, end.at) == (EndReason.START_TIMEOUT, START + timedelta(seconds=60))


def test_the_end_by_a_start_timeout_says_what_kept_replicas_from_running():
    life = Life(spec={"startTimeout": "60s"}).place().look().starts(index=0).wait(60)
    replicas = combine(life.job.attempt, life.engine.replicas)
    (end,) = endings(life.job, Terms.of(life.job), replicas, life.now, waiting={"worker-1": "no such image"})
    assert end.message == "not every replica ran within 1m of placement (worker-1: no such image)"


def test_an_attempt_that_had_its_time_ends_by_its_max_run_time():
    life = running(maxRunTime="1h").wait(3600)
    (end,) = ends_of(life)
    assert end.reason is EndReason.MAX_RUN_TIME
    assert end.message == "the attempt ran for its maxRunTime of 1h"


def test_the_run_time_counts_from_the_last_start():
    life = Life(spec={"maxRunTime": "60s"}).place().look().starts(index=0).wait(50).starts(index=1).look()
    assert ends_of(life.wait(20)) == ()
    assert ends_of(life.wait(40))[0].reason is EndReason.MAX_RUN_TIME


def hung(life: Life, action: str = "stop") -> Life:
    life.tell(IncidentRaised(rule="hang", line="silent for 30m", action=action, at=life.now))
    return life


def test_a_hang_that_is_to_be_stopped_ends_the_attempt_after_a_minute_without_evidence():
    life = hung(running())
    assert ends_of(life.wait(EVIDENCE_S - 1)) == ()
    assert next_deadline(life.job, Terms.of(life.job), life.engine.replicas) == life.now + timedelta(seconds=1)
    (end,) = ends_of(life.wait(1))
    assert (end.reason, end.message, end.stop_at) == (EndReason.HANG, "silent for 30m", life.now)


def test_a_hang_ends_the_attempt_as_soon_as_its_evidence_is_on_record():
    life = hung(running())
    noticed_at = life.now
    life.wait(7)
    life.tell(EvidenceCollected(rule="hang/warning", noticed_at=noticed_at, at=life.now))
    assert ends_of(life) == ()
    life.tell(EvidenceCollected(rule="hang", noticed_at=noticed_at, at=life.now))
    (end,) = ends_of(life)
    assert (end.reason, end.stop_at) == (EndReason.HANG, life.now)


def test_evidence_that_comes_late_puts_no_end_off():
    life = hung(running())
    life.tell(EvidenceCollected(rule="hang", noticed_at=life.now, at=life.now + timedelta(hours=1)))
    assert [end.reason for end in ends_of(life.wait(EVIDENCE_S))] == [EndReason.HANG]


def test_a_hang_that_is_only_told_ends_nothing():
    assert ends_of(hung(running(), "none").wait(3600)) == ()


def test_an_attempt_that_completes_or_fails_before_its_time_is_over_did_not_hang():
    done = hung(running()).wait(5).exits(index=0).exits(index=1)
    assert ends_of(done.wait(60))[0].reason is EndReason.COMPLETED
    failed = hung(running()).wait(5).exits(index=0, code=1)
    assert ends_of(failed.wait(60))[0].reason is EndReason.FAILED


def test_a_hang_of_an_earlier_attempt_ends_nothing():
    life = hung(running()).wait(EVIDENCE_S).look().wait(1).obeys_stop().look()
    life.tell(RetryDecided(retry=True, reason=""))
    life.look()
    assert life.job.attempt.number == 2
    assert ends_of(life) == ()


def test_a_stop_request_ends_the_attempt_with_its_reason():
    life = running()
    life.tell(StopRequested(by="ada", reason="enough"))
    (end,) = ends_of(life)
    assert (end.reason, end.message) == (EndReason.STOPPED, "enough")


def test_replicas_that_we_stopped_are_no_failures():
    life = running()
    life.tell(StopRequested(by="ada"))
    life.look().wait(1).obeys_stop()
    assert [end.reason for end in ends_of(life)] == [EndReason.STOPPED]


def test_a_lost_replica_is_the_platforms_fault():
    life = running().exits(index=0, code=None, cause="lost", message="the machine restarted")
    assert ends_of(life)[0].reason is EndReason.PLATFORM
    assert "was lost: the machine restarted" in ends_of(life)[0].message


def test_replicas_stopped_behind_the_jobs_back_end_it_by_the_platform():
    life = running()
    for index in range(2):
        life.exits(index=index, code=None, signal=15, cause="stopped")
    (end,) = ends_of(life)
    assert end.reason is EndReason.PLATFORM


def test_what_is_on_record_is_not_changed_by_what_is_seen_later():
    life = running().wait(1).exits(index=0, code=3).look()
    seen = {"worker-0": Replica(role="worker", index=0, node="n-1", started_at=START, exit=ReplicaExit(code=0))}
    assert combine(life.job.attempt, seen)["worker-0"].exit.code == 3


def test_only_news_is_unreported():
    life = Life().place().look().starts(index=0)
    changes = unreported(life.job.attempt, combine(life.job.attempt, life.engine.replicas))
    assert [(change.index, change.state) for change in changes] == [(0, "started")]
    life.look().exits(index=0, code=1)
    changes = unreported(life.job.attempt, combine(life.job.attempt, life.engine.replicas))
    assert [(change.index, change.state) for change in changes] == [(0, "exited")]


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (ReplicaExit(code=3), "replica worker-0 on node n-1 exited with code 3"),
        (ReplicaExit(signal=11), "replica worker-0 on node n-1 was killed by signal 11 (SIGSEGV)"),
        (ReplicaExit(signal=64), "replica worker-0 on node n-1 was killed by signal 64 (SIGRTMAX)"),
        (
            ReplicaExit(signal=9, out_of_memory=OutOfMemory.CERTAIN),
            "replica worker-0 on node n-1 was killed by signal 9 (SIGKILL); it ran out of memory",
        ),
        (
            ReplicaExit(cause="never-started", message="no bash"),
            "replica worker-0 on node n-1 could not be started: no bash",
        ),
    ],
)
def test_an_exit_is_told_in_a_sentence(end, sentence):
    assert describe_exit(Replica(role="worker", index=0, node="n-1"), end) == sentence


PLACED = Placed(cluster="main", roles=(RolePlacement(role="worker", pool="p-public", nodes=("n-1",), node_of=(0, 0)),))
DISPLACED = ReplicaExit(cause="never-started", message="OutOfcpu", displaced=True)


def displaced_before(times: int) -> Life:
    """A job that is placed, and whose attempts so far all found their places taken."""
    life = Life()
    for attempt in range(1, times + 1):
        life.tell(PLACED, attempt=attempt)
        life.tell(AttemptEnded(reason=EndReason.PREEMPTED, exit=DISPLACED), attempt=attempt)
        life.tell(Queued(reason="preempted"), attempt=attempt + 1)
    life.tell(PLACED, attempt=times + 1)
    return life


def end_of_displaced(life: Life):
    replicas = dict(life.job.attempt.replicas)
    replicas["worker-0"] = replicas["worker-0"].model_copy(update={"ended_at": life.now, "exit": DISPLACED})
    (end,) = endings(life.job, Terms.of(life.job), replicas, life.now)
    return end


def test_a_replica_whose_place_was_taken_sends_the_job_back_into_the_queue_at_once():
    end = end_of_displaced(displaced_before(0))
    assert (end.reason, end.stop_at) == (EndReason.PREEMPTED, end.at)
    assert end.message == "replica worker-0 on node n-1 could not be started: OutOfcpu"


def test_a_job_whose_place_is_taken_again_and_again_fails_by_the_platform():
    assert end_of_displaced(displaced_before(DISPLACEMENTS_MAX - 1)).reason is EndReason.PREEMPTED
    assert end_of_displaced(displaced_before(DISPLACEMENTS_MAX)).reason is EndReason.PLATFORM


def test_a_refusal_because_the_place_is_taken_is_a_displacement():
    life = Life().place().look()
    replicas = combine(life.job.attempt, life.engine.replicas)
    refusal = Refusal(life.now, "the node is cordoned", displaced=True)
    (end,) = endings(life.job, Terms.of(life.job), replicas, life.now, refusal)
    assert (end.reason, end.message) == (EndReason.PREEMPTED, "the node is cordoned")


@pytest.mark.parametrize("displaced", [True, False])
def test_a_refusal_explains_replicas_that_the_engine_gave_up_for_it_in_the_same_millisecond(displaced):
    life = Life().place().look()
    never = ReplicaExit(cause="never-started", message="the gang was stopped before it was started")
    given_up = {"ended_at": life.now, "exit": never}
    replicas = {key: replica.model_copy(update=given_up) for key, replica in life.job.attempt.replicas.items()}
    refusal = Refusal(life.now + timedelta(microseconds=293), "exceeded quota", displaced=displaced)
    end, *_ = endings(life.job, Terms.of(life.job), replicas, life.now, refusal)
    assert end.message == "exceeded quota"
    assert end.reason is (EndReason.PREEMPTED if displaced else EndReason.FAILED)
