"""How far each check is, as its events tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from services.diagnoser.domain.checks import ENDED_KEPT, Checks
from shared import events as ev
from shared.jobs import Recorded

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REQUESTED = ev.CheckRequested(check="dg-a", cluster="main", nodes=("n-1", "n-2"), by="root")
STARTED = ev.CheckStarted(check="dg-a", run="dg-a-1", in_use=("n-2",))
ENDED = ev.CheckEnded(check="dg-a", outcome="finished")


def after(*payloads: ev.Payload) -> Checks:
    checks = Checks()
    for number, payload in enumerate(payloads):
        check = str(getattr(payload, "check", ""))
        at = NOW + timedelta(seconds=number)
        event = ev.Event.of(payload, job=check, attempt=0, time=at, owner="", project="")
        checks.take(Recorded(number + 1, f"tm.check.{check}.{payload.SUFFIX}", event))
    return checks


def test_a_check_is_queued_until_it_is_begun() -> None:
    (check,) = after(REQUESTED).under_way()
    assert (check.state, check.began_at, check.requested_at) == ("queued", None, NOW)


def test_a_check_that_is_begun_anew_tells_of_its_last_run() -> None:
    again = STARTED.model_copy(update={"run": "dg-a-2", "in_use": ()})
    check = after(REQUESTED, STARTED, again).by_id["dg-a"]
    assert (check.state, check.began_at, check.in_use) == ("running", NOW + timedelta(seconds=2), ())


def test_what_comes_behind_the_end_changes_nothing() -> None:
    failed = ENDED.model_copy(update={"outcome": "failed"})
    checks = after(REQUESTED, STARTED, ENDED, STARTED, failed, REQUESTED)
    assert checks.by_id["dg-a"].state == "finished"
    assert list(checks.under_way()) == []


def test_a_check_comes_after_those_that_were_asked_for_before_it_and_have_not_ended() -> None:
    named = [REQUESTED.model_copy(update={"check": f"dg-{letter}"}) for letter in "abc"]
    checks = after(*named, STARTED)
    assert [[each.id for each in checks.before(name)] for name in ("dg-a", "dg-c")] == [[], ["dg-a", "dg-b"]]
    checks = after(*named, ENDED)
    assert [each.id for each in checks.before("dg-c")] == ["dg-b"]
    assert [checks.has_ended(name) for name in ("dg-a", "dg-b", "dg-none")] == [True, False, False]


def test_an_event_of_a_check_that_nobody_asked_for_is_nothing() -> None:
    assert after(STARTED, ENDED).by_id == {}


def test_of_many_that_have_ended_the_last_are_kept_and_none_that_has_not() -> None:
    named = [REQUESTED.model_copy(update={"check": f"dg-{number}"}) for number in range(ENDED_KEPT + 5)]
    ends = [ENDED.model_copy(update={"check": each.check}) for each in named[1:]]
    known = after(*named, *ends).by_id
    assert list(known)[:2] == ["dg-0", "dg-5"]
    assert len(known) == ENDED_KEPT + 1
