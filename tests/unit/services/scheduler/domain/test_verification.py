"""Bills that are right, not finished, and wrong."""

from __future__ import annotations

from services.scheduler.domain.metering import Used, totals
from services.scheduler.domain.verification import compare
from shared.events import UsagePhase
from tests.support.metering import Told, at

RUNNING = (1, "worker", UsagePhase.RUNNING)


def verdicts(told: Told, recorded: dict, minutes: float) -> dict:
    found = compare(told.job, recorded, at(minutes))
    return {(one.attempt, one.role, one.phase): one.verdict for one in found}


def ended() -> Told:
    return Told().place().run().exit(0, 5).exit(1, 5).end(5)


def right(told: Told) -> dict:
    return {(1, *key): used for key, used in totals(told.job, told.job.attempt, at(5)).items()}


def test_a_bill_that_is_what_the_events_say_is_the_same():
    assert set(verdicts(ended(), right(ended()), 5).values()) == {"same"}


def test_too_much_too_little_and_what_no_event_speaks_of_are_different():
    wrong = {**right(ended()), RUNNING: Used(1, 1), (7, "ghost", UsagePhase.RUNNING): Used(1, 1)}
    found = verdicts(ended(), wrong, 10)
    assert found[RUNNING] == "different"
    assert found[7, "ghost", UsagePhase.RUNNING] == "different"


def test_what_is_still_to_be_recorded_is_no_difference_yet():
    assert verdicts(ended(), {}, 5.5)[RUNNING] == "open"
    assert verdicts(ended(), {}, 6.5)[RUNNING] == "different"
    assert verdicts(Told().place().run(), {}, 500)[RUNNING] == "open"
