"""What is said about a followed job while it does not run."""

from __future__ import annotations

import pytest

from tests.support.job_documents import JOB_ID, event_document
from trainmaster.cli.waiting import AGAIN_AFTER_S, FIRST_AFTER_S, WaitTeller
from trainmaster.documents import Explanation, JobEvent
from trainmaster.errors import UnreachableError


class Waiting:
    """A teller, its clock, and what the platform would say."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.asked = 0
        self.answer: Explanation | None = explained("Queued", "place 1 of 1: waits for capacity")
        self.tell = WaitTeller(self._ask, lambda: self.now_s)

    def _ask(self) -> Explanation:
        self.asked += 1
        if self.answer is None:
            raise UnreachableError("nothing answers")
        return self.answer

    def after(self, seconds: float) -> str | None:
        self.now_s += seconds
        return self.tell()


def explained(state: str, summary: str, *, blocked: bool = False) -> Explanation:
    blockers = [{"role": "worker", "resource": "cpu", "needed": 1, "available": 0, "total": 0, "detail": ""}]
    document = {"job": JOB_ID, "state": state, "summary": summary, "blockers": blockers if blocked else []}
    return Explanation.of(document)


def happened(name: str) -> JobEvent:
    return JobEvent.of(event_document(name), 1)


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


def test_a_job_that_starts_at_once_is_not_asked_about(waiting: Waiting) -> None:
    assert waiting.after(FIRST_AFTER_S - 0.1) is None
    waiting.tell.hear(happened("job.started"))
    assert waiting.after(1000) is None
    assert waiting.asked == 0


def test_what_it_waits_for_is_said_after_a_moment(waiting: Waiting) -> None:
    assert waiting.after(FIRST_AFTER_S) == "Queued: place 1 of 1: waits for capacity"


def test_the_first_time_it_says_where_there_is_more(waiting: Waiting) -> None:
    waiting.answer = explained("Queued", "waits", blocked=True)
    assert waiting.after(FIRST_AFTER_S) == f"Queued: waits (`trainmaster explain {JOB_ID}` says more)"
    waiting.answer = explained("Queued", "waits for less", blocked=True)
    assert waiting.after(AGAIN_AFTER_S) == "Queued: waits for less"


def test_it_is_said_again_only_when_it_is_new(waiting: Waiting) -> None:
    waiting.after(FIRST_AFTER_S)
    assert waiting.after(AGAIN_AFTER_S) is None
    waiting.answer = explained("Starting", "1 of 2 replicas run")
    assert waiting.after(AGAIN_AFTER_S - 0.1) is None
    assert waiting.after(0.1) == "Starting: 1 of 2 replicas run"


def test_a_platform_that_is_away_is_asked_again_later(waiting: Waiting) -> None:
    answer, waiting.answer = waiting.answer, None
    assert waiting.after(FIRST_AFTER_S) is None
    waiting.answer = answer
    assert waiting.after(AGAIN_AFTER_S) == "Queued: place 1 of 1: waits for capacity"


@pytest.mark.parametrize("state", ["Running", "Succeeded", "Failed", "Stopped"])
def test_what_the_events_are_about_to_tell_is_not_said(waiting: Waiting, state: str) -> None:
    waiting.answer = explained(state, "something")
    assert waiting.after(FIRST_AFTER_S) is None


def test_the_wait_for_another_attempt_is_told_anew(waiting: Waiting) -> None:
    waiting.after(FIRST_AFTER_S)
    waiting.tell.hear(happened("job.started"))
    waiting.tell.hear(happened("attempt.ended"))
    assert waiting.after(FIRST_AFTER_S) == "Queued: place 1 of 1: waits for capacity"


def test_an_ended_job_waits_for_nothing(waiting: Waiting) -> None:
    waiting.tell.hear(happened("job.failed"))
    assert waiting.after(1000) is None
