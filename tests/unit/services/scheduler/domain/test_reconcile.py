"""What the scheduler does next about one job, whatever happened before."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from services.scheduler.domain.placement import seats_of
from services.scheduler.domain.reconcile import RequestDiagnosis, SaveData, StartGang, StopGang
from services.scheduler.domain.replacing import Replacement
from services.scheduler.domain.terms import Terms
from shared import events as ev
from shared.jobs import JobState
from tests.support.jobs import START
from tests.support.lives import Life


def running(**more) -> Life:
    return Life(**more).place().look().starts(index=0).starts(index=1).look()


class TestSaving:
    def test_an_attempt_ends_once_what_it_wrote_is_saved(self):
        life = running(unsaved=True).exits(index=0).exits(index=1).look().look()
        assert life.called(SaveData) == 1
        assert life.job.state is JobState.RUNNING
        life.saves().look()
        assert life.job.state is JobState.SUCCEEDED

    def test_nothing_is_saved_while_a_replica_runs(self):
        assert running(unsaved=True).exits(index=0).look().called(SaveData) == 0

    def test_a_restarted_scheduler_saves_again(self):
        life = running(unsaved=True).exits(index=0).exits(index=1).look()
        life.restart()
        assert life.look().called(SaveData) == 2

    def test_a_success_whose_output_is_lost_is_none(self):
        life = running(unsaved=True).exits(index=0).exits(index=1).look().saves("the bucket is gone").look()
        assert life.job.attempt.ended.reason is ev.EndReason.PLATFORM
        assert life.job.attempt.ended.message == "the bucket is gone"
        assert life.job.state is JobState.DECIDING

    def test_a_failure_stays_what_it_was_and_tells_of_the_loss(self):
        life = running(unsaved=True).exits(index=0, code=3).exits(index=1).look().saves("the bucket is gone").look()
        assert life.job.attempt.ended.reason is ev.EndReason.FAILED
        assert life.job.attempt.ended.message.endswith("; the bucket is gone")

    def test_what_a_stopped_job_wrote_is_saved_too(self):
        life = running(unsaved=True)
        life.tell(ev.StopRequested(by="u"))
        life.look().obeys_stop().look()
        assert life.called(SaveData) == 1
        assert life.saves().look().job.state is JobState.STOPPED


class TestStarting:
    def test_a_queued_job_is_left_to_the_planner(self):
        assert Life().look().actions == []

    def test_a_placed_gang_is_started_once(self):
        life = Life().place().look().look()
        assert life.called(StartGang) == 1

    def test_the_first_start_is_told_at_once_and_running_when_the_last_one_runs(self):
        life = Life().place().look().starts(index=0).look()
        assert life.told == ["submitted", "placed", "replicas.changed"]
        life.wait(0.1).starts(index=1).look()
        assert life.told[3:] == ["replicas.changed", "started"]
        assert life.job.state is JobState.RUNNING
        assert life.job.attempt.started_at == life.now

    def test_news_in_between_is_told_at_most_once_a_second(self):
        life = Life(roles=(("worker", 4),)).place().look().starts(index=0).look()
        life.wait(0.1).starts(index=1).look().wait(0.1).starts(index=2).look()
        assert life.told.count("replicas.changed") == 1
        assert life.look_again_at == START + timedelta(seconds=1)
        life.wait(0.8).look()
        assert life.told.count("replicas.changed") == 2
        assert len(life.record[-1].event.data.changes) == 2

    def test_a_restarted_scheduler_completes_a_start_that_may_have_been_cut_short(self):
        life = Life().place().look().starts(index=0).look()
        life.restart()
        life.look()
        assert life.called(StartGang) == 2

    def test_a_restarted_scheduler_does_not_start_a_running_gang_again(self):
        life = running()
        life.restart()
        life.look()
        assert life.called(StartGang) == 1

    def test_a_gang_that_the_engine_refuses_fails_with_the_engines_reason(self):
        life = Life(refuses="mounts need bubblewrap").place().look()
        assert life.job.attempt.ended.reason is ev.EndReason.FAILED
        assert life.job.attempt.ended.message == "mounts need bubblewrap"
        assert life.job.state is JobState.DECIDING

    def test_a_gang_that_does_not_start_in_time_is_stopped(self):
        life = Life(spec={"startTimeout": "60s"}).place().look().starts(index=0).look().wait(60).look()
        assert life.called(StopGang) == 1
        life.wait(1).obeys_stop().look()
        assert life.job.attempt.ended.reason is ev.EndReason.START_TIMEOUT


BAD = ev.DiagnosisFinished(passed=False, bad_nodes=("n-1",), message="n-1: CPU 0 computed wrong")


class TestDiagnosis:
    def test_the_nodes_are_looked_at_once_and_nothing_starts_before(self):
        life = Life().place(diagnosing=True).look().look()
        assert life.told == ["submitted", "placed", "diagnosis.requested"]
        assert life.record[-1].event.data.nodes == ("n-1",)
        assert life.called(StartGang) == 0

    def test_nodes_that_are_well_are_admitted_and_the_gang_starts(self):
        life = Life().place(diagnosing=True).look()
        life.wait(2).tell(ev.DiagnosisFinished(passed=True))
        life.look()
        assert (life.told[-1], life.job.state) == ("admitted", JobState.STARTING)
        assert life.called(StartGang) == 1

    def test_a_bad_node_ends_the_attempt_before_anything_ran(self):
        life = Life().place(diagnosing=True).look()
        life.tell(BAD)
        life.look()
        assert life.job.attempt.ended.reason is ev.EndReason.DIAGNOSIS
        why = "n-1: CPU 0 computed wrong; no other nodes are free to take their place"
        assert life.job.attempt.ended.message == why
        assert life.job.state is JobState.DECIDING
        assert (life.called(StartGang), life.called(StopGang)) == (0, 0)
        assert {replica.exit.cause for replica in life.job.attempt.replicas.values()} == {"never-started"}

    def other_node(self, life: Life) -> Replacement:
        seats = seats_of(life.job.attempt, Terms.of(life.job))
        return Replacement(("n-1",), ("n-2",), tuple(replace(seat, node="n-2") for seat in seats), round=2)

    def test_a_bad_node_is_replaced_where_another_is_free_and_only_that_one_is_tested(self):
        life = Life().place(diagnosing=True).look()
        life.replacement = self.other_node(life)
        life.wait(5).tell(BAD)
        life.look()
        assert life.told[-2:] == ["placement.changed", "diagnosis.requested"]
        asked = life.record[-1].event.data
        assert (asked.nodes, asked.only, asked.round) == (("n-2",), ("n-2",), 2)
        assert life.record[-2].event.data.reason == BAD.message
        life.tell(ev.DiagnosisFinished(passed=True, round=2))
        life.look()
        assert (life.job.state, life.called(StartGang), life.job.attempt.number) == (JobState.STARTING, 1, 1)

    def test_a_doubtful_node_is_replaced_before_the_gang_is_admitted(self):
        life = Life().place(diagnosing=True).look()
        life.replacement = self.other_node(life)
        life.tell(ev.DiagnosisFinished(passed=True, doubtful_nodes=("n-1",)))
        life.look()
        assert "admitted" not in life.told
        assert life.job.attempt.placement.roles[0].nodes == ("n-2",)

    def test_the_next_round_has_its_whole_time(self):
        life = Life().place(diagnosing=True).look()
        life.replacement = self.other_node(life)
        life.wait(500).tell(BAD)
        life.look().wait(599).look()
        assert life.job.state is JobState.DIAGNOSING
        life.wait(1).look()
        assert life.job.attempt.ended.message == "the diagnosis of the nodes gave no result within 10m"

    def test_a_failed_attempt_says_that_nodes_were_replaced_already(self):
        life = Life().place(diagnosing=True).look()
        for number in (2, 3):
            life.replacement = replace(self.other_node(life), round=number)
            life.tell(BAD.model_copy(update={"round": number - 1}))
            life.look()
        life.tell(BAD.model_copy(update={"round": 3}))
        life.look()
        assert life.job.attempt.ended.message.endswith("nodes were replaced 2 times already")

    def test_a_stop_comes_before_a_replacement(self):
        life = Life().place(diagnosing=True).look()
        life.replacement = self.other_node(life)
        life.tell(BAD)
        life.tell(ev.StopRequested(by="ada"))
        life.look()
        assert life.job.state is JobState.STOPPED
        assert "placement.changed" not in life.told

    def test_a_restarted_scheduler_does_not_ask_twice(self):
        life = Life().place(diagnosing=True).look()
        life.restart()
        life.look()
        assert life.called(RequestDiagnosis) == 1

    def test_a_stop_while_nodes_are_diagnosed_ends_the_job_at_once(self):
        life = Life().place(diagnosing=True).look()
        life.tell(ev.StopRequested(by="ada"))
        life.look()
        assert (life.job.state, life.job.attempt.ended.reason) == (JobState.STOPPED, ev.EndReason.STOPPED)
        life.tell(BAD)
        life.look()
        assert life.told[-1] == "diagnosis.finished"
        assert life.called(StartGang) == 0

    def test_a_diagnosis_of_which_nothing_is_heard_ends_the_attempt(self):
        life = Life().place(diagnosing=True).look()
        assert life.look_again_at == life.now + timedelta(minutes=10)
        life.wait(600).look()
        assert life.job.attempt.ended.reason is ev.EndReason.DIAGNOSIS
        assert life.job.attempt.ended.message == "the diagnosis of the nodes gave no result within 10m"

    def test_the_start_has_its_whole_time_after_the_diagnosis(self):
        life = Life(spec={"startTimeout": "60s"}).place(diagnosing=True).look().wait(50)
        life.tell(ev.DiagnosisFinished(passed=True))
        life.look().wait(50).look()
        assert life.job.state is JobState.STARTING
        life.wait(11).look().obeys_stop().look()
        assert life.job.attempt.ended.reason is ev.EndReason.START_TIMEOUT


class TestEnding:
    def test_a_job_whose_replicas_all_succeeded_has_succeeded(self):
        life = running().exits(index=0).exits(index=1).look()
        assert life.told[-2:] == ["attempt.ended", "succeeded"]
        assert life.job.state is JobState.SUCCEEDED
        assert {replica.exit.code for replica in life.job.attempt.replicas.values()} == {0}

    def test_a_gang_that_came_and_went_between_two_looks_was_running_all_the_same(self):
        life = Life().place().look().starts(index=0).starts(index=1).wait(1).exits(index=0).exits(index=1).look()
        assert life.told[2:] == ["replicas.changed", "started", "attempt.ended", "succeeded"]
        assert life.job.attempt.started_at == START

    def test_survivors_get_ten_seconds_before_they_are_stopped(self):
        life = running().exits(index=0, code=1).look()
        assert life.called(StopGang) == 0
        assert life.look_again_at <= START + timedelta(seconds=10)
        assert life.wait(9).look().called(StopGang) == 0
        assert life.wait(1).look().called(StopGang) == 1

    def test_the_end_is_not_on_record_before_every_end_is_confirmed(self):
        life = running().exits(index=0, code=1).wait(10).look().wait(20).look()
        assert "attempt.ended" not in life.told
        life.obeys_stop().look()
        assert life.told[-1] == "attempt.ended"
        assert life.job.attempt.ended.first_failure == ev.ReplicaRef(role="worker", index=0)
        assert life.job.attempt.ended.exit.code == 1

    def test_survivors_that_end_by_themselves_are_not_waited_for(self):
        life = running().exits(index=0, code=1).wait(1).exits(index=1, code=1).look()
        assert life.called(StopGang) == 0
        assert life.job.state is JobState.DECIDING

    def test_a_failed_job_waits_for_the_watchdog_and_fails_on_its_no(self):
        life = running().exits(index=0, code=1).exits(index=1, code=1).look().wait(3600).look()
        assert life.job.state is JobState.DECIDING
        life.tell(ev.RetryDecided(retry=False, reason="no retry configured"))
        life.look()
        assert (life.job.state, life.job.reason) == (JobState.FAILED, "failed")
        assert life.job.message == "replica worker-0 on node n-1 exited with code 1"

    def test_a_retry_is_queued_when_its_time_has_come(self):
        life = running().exits(index=0, code=1).exits(index=1, code=1).look()
        due = life.now + timedelta(seconds=30)
        life.tell(ev.RetryDecided(retry=True, reason="worth it", not_before=due))
        life.look()
        assert (life.job.state, life.look_again_at) == (JobState.RETRYING, due)
        life.wait(30).look()
        assert (life.job.state, life.job.attempt.number) == (JobState.QUEUED, 2)

    def test_the_deciding_role_stops_the_others_and_the_job_succeeds(self):
        roles = (("master", 1), ("worker", 1))
        life = Life(spec={"completion": {"succeedWhen": "role:master"}}, roles=roles).place().look()
        life.starts("master").starts("worker").look().exits("master").look()
        assert life.called(StopGang) == 1
        life.obeys_stop().look()
        assert life.job.state is JobState.SUCCEEDED
        assert life.job.attempt.replica("worker", 0).state == "Stopped"


class TestStopping:
    def test_a_queued_job_is_stopped_at_once(self):
        life = Life()
        life.tell(ev.StopRequested(by="ada"))
        assert life.look().job.state is JobState.STOPPED

    def test_a_job_that_waits_for_a_decision_is_stopped_at_once(self):
        life = running().exits(index=0, code=1).exits(index=1, code=1).look()
        life.tell(ev.StopRequested(by="ada"))
        assert life.look().job.state is JobState.STOPPED

    def test_a_placed_gang_that_was_not_started_is_not_started_any_more(self):
        life = Life().place()
        life.tell(ev.StopRequested(by="ada"))
        life.look()
        assert life.engine.starts == []
        assert life.told[-2:] == ["attempt.ended", "stopped"]

    def test_a_running_job_is_stopped_when_its_replicas_have_ended(self):
        life = running()
        life.tell(ev.StopRequested(by="ada", reason="enough"))
        life.look()
        assert life.job.state is JobState.STOPPING
        life.wait(3).obeys_stop().look()
        assert (life.job.state, life.job.message) == (JobState.STOPPED, "enough")
        assert life.job.attempt.ended.reason is ev.EndReason.STOPPED

    def test_a_stop_during_last_words_does_not_wait_for_them(self):
        life = running().exits(index=0, code=1).look().wait(1)
        life.tell(ev.StopRequested(by="ada"))
        assert life.look().called(StopGang) == 1
        life.obeys_stop().look()
        assert life.job.attempt.ended.reason is ev.EndReason.FAILED
        assert life.job.state is JobState.STOPPED

    def test_a_job_that_completed_before_it_could_be_stopped_has_succeeded(self):
        life = running().exits(index=0).exits(index=1).wait(1)
        life.tell(ev.StopRequested(by="ada"))
        assert life.look().job.state is JobState.SUCCEEDED


PREEMPTION = ev.PreemptionRequested(by="tj-x", priority=9, message="makes room for a job of priority 9")


class TestPreemption:
    def test_the_gang_is_stopped_and_queued_again_in_one_write_when_its_replicas_have_ended(self):
        life = running()
        life.tell(PREEMPTION)
        assert life.look().called(StopGang) == 1
        assert life.job.state is JobState.RUNNING
        life.wait(3).obeys_stop().look()
        assert life.told[-2:] == ["attempt.ended", "queued"]
        assert life.job.attempts[0].ended.reason is ev.EndReason.PREEMPTED
        assert (life.job.state, life.job.attempt.number) == (JobState.QUEUED, 2)

    def test_one_that_was_not_started_is_not_started_any_more(self):
        life = Life().place()
        life.tell(PREEMPTION)
        life.look()
        assert life.engine.starts == []
        assert life.job.state is JobState.QUEUED

    def test_one_that_completed_before_has_succeeded(self):
        life = running().exits(index=0).exits(index=1).wait(1)
        life.tell(PREEMPTION)
        assert life.look().job.state is JobState.SUCCEEDED

    def test_one_that_failed_before_is_a_failure_and_left_to_the_watchdog(self):
        life = running().exits(index=0, code=1).wait(1)
        life.tell(PREEMPTION)
        life.look().wait(3).obeys_stop().look()
        assert life.job.attempt.ended.reason is ev.EndReason.FAILED
        assert life.job.state is JobState.DECIDING

    def test_a_stop_meanwhile_stops_the_job_for_good(self):
        life = running()
        life.tell(PREEMPTION)
        life.look()
        life.tell(ev.StopRequested(by="ada"))
        life.wait(3).obeys_stop().look()
        assert life.job.state is JobState.STOPPED

    def test_a_restarted_scheduler_completes_what_was_begun(self):
        life = running()
        life.tell(PREEMPTION)
        life.look().restart()
        life.look().wait(3).obeys_stop().look()
        assert life.job.state is JobState.QUEUED


class TestLosing:
    def test_a_running_gang_that_the_engine_does_not_know_is_lost(self):
        life = running().loses_the_gang()
        life.restart()
        life.look()
        assert life.job.attempt.ended.reason is ev.EndReason.PLATFORM
        assert {replica.exit.cause for replica in life.job.attempt.replicas.values()} == {"lost"}

    def test_a_half_started_gang_that_the_engine_does_not_know_is_lost_too(self):
        life = Life().place().look().starts(index=0).look().loses_the_gang()
        life.restart()
        life.look()
        assert life.job.attempt.ended.reason is ev.EndReason.PLATFORM
        assert life.called(StartGang) == 1

    def test_a_gang_of_which_nothing_started_is_simply_started(self):
        life = Life().place().look().loses_the_gang()
        life.restart()
        life.look()
        assert life.called(StartGang) == 2
        assert life.job.state is JobState.STARTING

    def test_a_job_that_succeeded_is_not_run_again_when_its_gang_is_lost(self):
        life = running().exits(index=0).exits(index=1).wait(1).look().loses_the_gang()
        life.restart()
        life.look()
        assert life.job.state is JobState.SUCCEEDED
        assert (life.called(StartGang), len(life.job.attempts)) == (1, 1)

    def test_a_replica_that_succeeded_has_still_succeeded_when_the_rest_is_lost(self):
        life = running().exits(index=0).look().wait(2).look().loses_the_gang()
        life.restart()
        life.look()
        causes = {replica.index: replica.exit.cause for replica in life.job.attempt.replicas.values()}
        assert life.job.attempt.replicas["worker-0"].state == "Succeeded"
        assert causes[1] == "lost"


class LifeMachine(RuleBasedStateMachine):
    """Anything may happen to a gang of three at any time, the scheduler dying included."""

    def __init__(self):
        super().__init__()
        spec = {"startTimeout": "60s", "maxRunTime": "300s"}
        self.life = Life(spec=spec, roles=(("master", 1), ("worker", 2))).place()
        self.reasons = []

    def _note(self):
        if self.life.job.attempt.ended:
            self.reasons.append(self.life.job.attempt.ended)

    replicas = st.sampled_from([("master", 0), ("worker", 0), ("worker", 1)])

    @rule(replica=replicas)
    def start(self, replica):
        self.life.starts(*replica)

    @rule(replica=replicas, code=st.sampled_from([0, 0, 1, 137]))
    def exit(self, replica, code):
        self.life.exits(*replica, code=code)

    @rule(seconds=st.sampled_from([0.01, 0.5, 5, 11, 70, 400]))
    def wait(self, seconds):
        self.life.wait(seconds)

    @rule()
    def obey(self):
        self.life.obeys_stop()

    @rule()
    def look(self):
        self.life.look()
        self._note()

    @rule()
    def crash(self):
        self.life.restart()

    @rule()
    def lose(self):
        self.life.loses_the_gang()
        self.life.restart()

    @precondition(lambda self: self.life.job.state in {JobState.STARTING, JobState.RUNNING})
    @rule()
    def ask_to_stop(self):
        self.life.tell(ev.StopRequested(by="ada"))

    @rule()
    def come_to_an_end(self):
        """Whatever happened, enough time and an engine that obeys bring every attempt to its end."""
        for _ in range(6):
            self.life.look().wait(500).look().obeys_stop().look()
        self._note()
        assert self.life.job.attempt.ended is not None

    @invariant()
    def each_milestone_is_told_at_most_once(self):
        told = Counter(self.life.told)
        assert all(told[kind] <= 1 for kind in ("started", "attempt.ended", "succeeded", "stopped"))

    @invariant()
    def an_end_on_record_means_that_every_replica_has_ended(self):
        attempt = self.life.job.attempt
        if attempt.ended:
            assert all(replica.exit for replica in attempt.replicas.values())

    @invariant()
    def success_means_that_the_replicas_succeeded(self):
        if self.life.job.state is JobState.SUCCEEDED:
            assert all(replica.exit.succeeded for replica in self.life.job.attempt.replicas.values())

    @invariant()
    def the_reason_does_not_change(self):
        assert all(reason == self.reasons[0] for reason in self.reasons)


TestLifeMachine = LifeMachine.TestCase
