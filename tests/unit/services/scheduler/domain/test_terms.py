"""What the scheduler reads out of a spec."""

from __future__ import annotations

from datetime import timedelta

from services.scheduler.domain.nodes import Request
from services.scheduler.domain.terms import REPLACEMENTS_MAX, Terms
from shared import events as ev
from shared.jobs import Recorded, fold, fold_all
from tests.support.jobs import START, event, history, role, submitted


def job(**spec):
    made = submitted()
    made = made.model_copy(update={"spec": {**made.spec, **spec}, "priority": 7})
    return fold(None, Recorded(42, "", event(made, "tj-aaaaaaaaaaaa")))


def test_durations_are_read_in_seconds_with_their_defaults():
    terms = Terms.of(job())
    assert (terms.start_timeout_s, terms.max_run_time_s, terms.grace_s) == (1800, None, 30)
    terms = Terms.of(job(startTimeout="90s", maxRunTime="2h", terminationGrace="5s"))
    assert terms.start_deadline(START) == START + timedelta(seconds=90)
    assert terms.run_deadline(START) == START + timedelta(hours=2)
    assert terms.grace_s == 5


def test_without_a_limit_there_is_no_run_deadline():
    assert Terms.of(job()).run_deadline(START) is None


def test_all_roles_decide_unless_one_is_named():
    assert Terms.of(job()).deciding_roles == {"worker"}
    assert Terms.of(job(completion={"succeedWhen": "role:master"})).deciding_roles == {"master"}


def test_requests_are_those_that_were_resolved_at_submission():
    made = submitted().model_copy(
        update={
            "resolved": ev.Resolved(
                cluster="main", roles=(role(cpu_millis=2000, memory_bytes=5, gpu_count=2, gpu_model="H100"),)
            )
        }
    )
    terms = Terms.of(fold(None, Recorded(1, "", event(made, "tj-aaaaaaaaaaaa"))))
    assert terms.roles[0].request == Request(2000, 5, 2, "H100")
    assert (terms.roles[0].replicas, terms.roles[0].pool) == (2, "public")


def test_a_gang_queues_by_the_sequence_of_its_submission():
    one = job(excludeNodes=["node-1"])
    gang = Terms.of(one).gang(one)
    assert (gang.sequence, gang.priority, gang.attempt) == (42, 7, 1)
    assert gang.excluded == {"node-1"}


def test_nodes_that_failed_the_diagnosis_of_an_earlier_attempt_are_avoided():
    placed = ev.Placed(cluster="main", roles=(), diagnosing=True)
    found = ev.DiagnosisFinished(passed=False, bad_nodes=("n-2",))
    again = ev.RetryDecided(retry=True, reason="on-diagnosis-failure")
    ended = ev.AttemptEnded(reason=ev.EndReason.DIAGNOSIS)
    one = fold_all(history([(submitted(), 1), (placed, 1), (found, 1), (ended, 1), (again, 1), (ev.Queued(), 2)]))
    gang = Terms.of(one).gang(one)
    assert (gang.attempt, gang.excluded, gang.failed_diagnosis, gang.avoided) == (2, set(), {"n-2"}, {"n-2"})


def test_nodes_that_were_replaced_in_an_earlier_attempt_are_avoided_too():
    placed = ev.Placed(cluster="main", roles=(), diagnosing=True)
    first, second = (
        ev.DiagnosisFinished(passed=False, bad_nodes=(node,), round=number)
        for number, node in enumerate(("n-2", "n-3"), start=1)
    )
    moved = ev.PlacementChanged(roles=(), left=("n-2",), taken=("n-3",), round=2)
    ended, again = ev.AttemptEnded(reason=ev.EndReason.DIAGNOSIS), ev.RetryDecided(retry=True, reason="x")
    told = [(each, 1) for each in (submitted(), placed, first, moved, second, ended, again)]
    one = fold_all(history([*told, (ev.Queued(), 2)]))
    assert Terms.of(one).gang(one).avoided == {"n-2", "n-3"}


def test_how_long_an_attempt_may_hold_its_place_counts_every_round_of_its_diagnosis():
    plain, diagnosed = (
        Terms.of(job(maxRunTime="1h", startTimeout="5m", **more)).longest_s
        for more in ({}, {"diagnosis": {"enabled": True}})
    )
    assert diagnosed - plain == (REPLACEMENTS_MAX + 1) * 300


def test_a_diagnosis_happens_where_the_job_asks_for_it():
    assert not Terms.of(job()).diagnosing
    assert not Terms.of(job(diagnosis={"enabled": False})).diagnosing
    terms = Terms.of(job(diagnosis={"enabled": True}, startTimeout="1h"))
    assert terms.diagnosing
    assert terms.diagnosis_deadline(START) == START + timedelta(minutes=10)
    assert Terms.of(job(startTimeout="90s")).diagnosis_deadline(START) == START + timedelta(seconds=90)


def test_a_node_that_the_last_attempt_failed_on_is_avoided_once():
    excluding = ev.RetryDecided(retry=True, reason="cuda-ecc", exclude_nodes=("n-2",))
    told = [(submitted(), 1)]
    for number, decision in ((1, excluding), (2, ev.RetryDecided(retry=True, reason="dns"))):
        placed, ended = ev.Placed(cluster="main", roles=()), ev.AttemptEnded(reason=ev.EndReason.FAILED)
        told += [(placed, number), (ended, number), (decision, number), (ev.Queued(), number + 1)]
        one = fold_all(history(told))
        gang = Terms.of(one).gang(one)
        assert gang.suspected == gang.avoided == ({"n-2"} if number == 1 else set())
