"""Where a job stands, in every state."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from services.scheduler.domain.explaining.trials import Trials
from services.scheduler.domain.gang import Pool, Preemption, QueuePolicy
from services.scheduler.domain.planning.plan import Snapshot
from services.scheduler.domain.planning.waiting import Queue
from services.scheduler.domain.quotas import Quota
from services.scheduler.domain.standing import Asker, explained, place_in_queue, standing_of, waiting
from shared import events as ev
from tests.support.cluster import NOW, PUBLIC, ask, columns, gang, node
from tests.support.cluster_life import ClusterLife
from tests.support.jobs import START, job_after, placed
from tests.support.lives import Life

PLACED = placed()
FAILED = ev.AttemptEnded(reason=ev.EndReason.FAILED, message="replica worker-0 exited with code 3")


def snapshot(*gangs, cores: int = 8, policy: QueuePolicy = QueuePolicy.BACKFILL) -> Snapshot:
    pools = {"public": replace(PUBLIC, policy=policy), "team": Pool("team", "main", node_names=frozenset({"a"}))}
    return Snapshot(columns([node("a", cores=cores)], pools), Queue(gangs))


def trials(*gangs, **more) -> Trials:
    return Trials(snapshot(*gangs, **more), NOW)


def told(job) -> str:
    return standing_of(job, trials()).summary


def test_a_waiting_job_is_told_its_place_and_what_is_short():
    job = job_after()
    first, mine = gang(job="tj-x"), gang(ask(2, cores=5), job=job.id, sequence=2)
    answer = standing_of(job, trials(first, mine))
    assert (answer.position, answer.rivals) == (2, 2)
    assert answer.blockers[0].resource == "cpu"
    assert "does not fit even with nothing else running" in answer.summary
    fitting = standing_of(job, trials(first, gang(job=job.id, sequence=2)))
    assert fitting.summary == "place 2 of 2 in the queue: starts now"


def test_a_job_that_would_fit_is_told_whom_it_waits_for_as_far_as_the_asker_may_know():
    job = job_after()
    first, mine = gang(ask(9), job="tj-x", priority=9), gang(job=job.id, sequence=2)
    asked = trials(first, mine, policy=QueuePolicy.FIFO)
    answer = standing_of(job, asked)
    assert answer.blockers[0].resource == "queue"
    assert "'public' is a fifo pool, and a job of others before it does not fit" in answer.summary
    friend = explained(answer, asked, Asker(may_know=lambda other: other == "tj-x"))
    assert "job tj-x before it does not fit" in friend.blockers[0].detail


def test_those_before_it_that_take_the_room_are_counted():
    job = job_after()
    first, mine = gang(ask(8), job="tj-x", priority=9), gang(job=job.id, sequence=2)
    assert "1 gangs before it in the queue start now" in standing_of(job, trials(first, mine)).summary


def test_the_whole_answer_has_what_would_start_it_and_what_a_job_that_never_fits_could_have():
    job = job_after()
    asked = trials(gang(ask(9), job=job.id))
    answer = explained(standing_of(job, asked), asked, Asker())
    assert [change.settings for change in answer.changes] == [("spec.roles.0.replicas=8",)]
    assert answer.expected_at is None
    full = trials(gang(ask(8), job="tj-x", priority=9), gang(ask(9), job=job.id, sequence=2))
    later = explained(standing_of(job, full), full, Asker())
    assert later.changes == ()
    assert later.advice == ("8 instead of 9 replicas of role worker fit once other jobs have ended",)


def test_a_quota_of_zero_is_told():
    job = job_after()
    mine = replace(gang(job=job.id), project="vision")
    asked = Trials(replace(snapshot(mine), quotas={"vision": Quota(replicas=0)}), NOW)
    answer = explained(standing_of(job, asked), asked, Asker())
    assert answer.summary == (
        "asks for more than the quota of its project: "
        "project 'vision' may have 0 running replicas; its jobs have 0, and this one needs 1"
    )
    assert answer.advice == ("a larger quota",)


def test_a_cluster_of_no_nodes_and_a_pool_that_is_gone_are_told():
    job = job_after()
    nowhere = Trials(Snapshot(columns([]), Queue((gang(job=job.id),))), NOW)
    answer = explained(standing_of(job, nowhere), nowhere, Asker())
    assert "pool 'public' has no node that role worker may use" in answer.summary
    assert (answer.changes, answer.advice, answer.expected_at) == ((), (), None)
    gone = trials(gang(ask(pool="gone"), job=job.id))
    assert "there is no pool 'gone' for role worker" in standing_of(job, gone).summary


def test_only_those_who_wait_for_the_same_pools_count_as_rivals():
    other, mine = gang(ask(pool="team"), job="other"), gang(job="mine", sequence=2)
    assert place_in_queue(mine, snapshot(other, mine)) == (1, 1)
    both = gang(ask(pool="team"), ask(name="ps"), job="both", sequence=3)
    assert place_in_queue(both, snapshot(other, mine, both)) == (3, 3)


def test_a_job_that_was_queued_a_moment_ago_is_not_judged_yet():
    assert told(job_after()) == "waits to be looked at"


def test_a_starting_job_is_told_how_much_of_it_runs():
    life = Life().place().look().starts(index=0).look()
    assert told(life.job) == "1 of 2 replicas run, on n-1"


def test_a_running_job_is_told_since_when():
    life = Life().place().look().starts(index=0).starts(index=1).look()
    assert told(life.job) == "all 2 replicas run since 2026-01-01T00:00:00.000Z, on n-1"


def test_a_job_under_diagnosis_is_told_where():
    diagnosing = PLACED.model_copy(update={"diagnosing": True})
    assert told(job_after(diagnosing)) == "its nodes n-1 are being diagnosed"
    moved = ev.PlacementChanged(roles=PLACED.roles, left=("n-9",), taken=("n-1",), names={"n-9": "vm-9"}, round=2)
    rounds = "its nodes n-1 are being diagnosed, in round 2 of at most 3: vm-9 left after the last one"
    assert told(job_after(diagnosing, moved)) == rounds


def test_a_job_that_is_being_stopped_is_told_how_far_it_is():
    assert told(job_after(PLACED, ev.StopRequested(by="ada"))) == "is being stopped; 0 of 2 replicas have ended"


def test_a_job_that_waits_for_a_decision_says_whose():
    assert told(job_after(PLACED, FAILED)) == (
        "attempt 1 ended: replica worker-0 exited with code 3; the watchdog has yet to decide about a retry"
    )


def test_a_retry_is_told_with_its_time():
    due = START + timedelta(minutes=5)
    retry = ev.RetryDecided(retry=True, reason="worth it", not_before=due)
    why = "; attempt 1 ended: worth it, 0 left"
    assert told(job_after(PLACED, FAILED, retry)) == f"attempt 2 is queued at 2026-01-01T00:05:00.000Z{why}"
    at_once = ev.RetryDecided(retry=True, reason="worth it")
    assert told(job_after(PLACED, FAILED, at_once)) == f"attempt 2 is queued at once{why}"


def test_an_ended_job_is_told_how_it_ended():
    job = job_after(PLACED, FAILED, ev.RetryDecided(retry=False, reason=""), ev.Failed(reason="failed", message="oh"))
    assert told(job) == "ended at 2026-01-01T00:00:05.000Z (oh)"


def test_a_job_that_others_are_stopped_for_is_told_how_many_and_by_when_it_starts():
    pool = replace(PUBLIC, preemption=Preemption(600.0))
    life = ClusterLife([node("a", cores=8)], (pool,))
    life.submit(gang(ask(1, cores=8), job="tj-spot", priority=3))
    life.cycle()
    life.pass_time(600)
    urgent = gang(ask(1, cores=8), job=job_after().id, priority=9)
    life.submit(urgent)
    asked = Trials(life.state.snapshot(), life.now)
    answer = explained(waiting(urgent, asked), asked, Asker())
    assert answer.summary.endswith("; 1 job of lower priority is stopped to make room for it")
    assert answer.expected_at == life.now + timedelta(seconds=30)
    life.cycle()
    asked = Trials(life.state.snapshot(), life.now)
    answer = explained(waiting(urgent, asked), asked, Asker())
    assert answer.summary.endswith("; 1 job that was told to stop will make room")
    assert answer.expected_at == life.now + timedelta(seconds=30)
