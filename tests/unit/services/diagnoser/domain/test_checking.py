"""Which idle nodes are checked in the background, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from services.diagnoser.domain.book import Book
from services.diagnoser.domain.checking import Due, Schedule, due
from shared import events as ev
from shared.jobs import Recorded

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NEVER = Schedule()


def tell(book: Book, payload: ev.Payload, node: str, at: datetime) -> None:
    event = ev.Event.of(payload, job=node, attempt=0, time=at, owner="", project="")
    book.take(Recorded(1, f"tm.node.main.{node}.{payload.SUFFIX}", event))


def book_of(*nodes: str, passed: datetime = NOON) -> Book:
    """Nodes that passed at this time."""
    book = Book()
    for node in nodes:
        tell(book, ev.NodeReported(cluster="main", node=node, cpu_millis=1, memory_bytes=1), node, passed)
        diagnose(book, node, passed)
    return book


def diagnose(book: Book, node: str, at: datetime, job: str = "", verdict: str = "green", *, fresh: bool = True) -> None:
    fields = {"cluster": "main", "node": node, "diagnosis": f"dg-{node}", "began": at, "tookS": 1, "job": job}
    tell(book, ev.NodeDiagnosed.model_validate({**fields, "verdict": verdict, "fresh": fresh}), node, at)


def suspect(book: Book, node: str, at: datetime) -> None:
    tell(book, ev.NodeSuspected(cluster="main", node=node, job="tj-a", attempt=1, rule="xid-79"), node, at)


def after(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def test_a_node_that_a_failed_job_speaks_against_is_checked_after_ten_minutes_with_trusted_partners() -> None:
    book = book_of("n-1", "n-2", "n-3", "n-4")
    suspect(book, "n-3", NOON)
    assert due(book, (), NEVER, after(9)).nodes == ()
    assert due(book, (), NEVER, after(10)).nodes == ("n-3", "n-1", "n-2")


def test_a_suspect_that_was_checked_is_checked_again_after_an_hour() -> None:
    book = book_of("n-1", "n-2")
    suspect(book, "n-1", NOON)
    diagnose(book, "n-1", after(10), verdict="amber")
    assert due(book, (), NEVER, after(60)).nodes == ()
    assert due(book, (), NEVER, after(70)).nodes == ("n-1", "n-2")


def test_a_node_that_was_found_bad_for_a_job_is_checked_soon() -> None:
    book = book_of("n-1")
    diagnose(book, "n-1", NOON, job="tj-a", verdict="red")
    tell(book, ev.NodeJudged(cluster="main", node="n-1", health="bad"), "n-1", NOON)
    assert due(book, (), NEVER, after(10)).nodes == ("n-1",)


def test_nodes_that_jobs_hold_and_lost_ones_are_left_alone() -> None:
    book = book_of("n-1", "n-2", "n-3")
    suspect(book, "n-1", NOON)
    suspect(book, "n-2", NOON)
    tell(book, ev.NodeChanged(cluster="main", node="n-2", before="Ready", state="Lost"), "n-2", NOON)
    assert due(book, {"n-1"}, NEVER, after(60)).nodes == ()


def test_without_a_schedule_sound_nodes_are_left_alone_and_with_one_they_have_their_turn() -> None:
    book = book_of("n-1", "n-2")
    assert due(book, (), NEVER, after(60 * 100)).nodes == ()
    assert due(book, (), Schedule(48), after(60 * 47)).nodes == ()
    assert due(book, (), Schedule(48), after(60 * 48)) == Due(("n-1", "n-2"), thorough=True)


def test_a_schedule_has_nodes_tested_whose_passes_hold_and_a_look_is_no_test() -> None:
    book = book_of("n-1", "n-2")
    diagnose(book, "n-1", after(60), job="tj-a", fresh=False)
    diagnose(book, "n-2", after(60))
    assert due(book, (), Schedule(2), after(119)) == Due()
    assert due(book, (), Schedule(2), after(120)) == Due(("n-1", "n-2"), thorough=True)
    diagnose(book, "n-1", after(120), fresh=False)
    assert due(book, (), Schedule(2), after(129)) == Due()


def test_what_a_schedule_wants_waits_for_suspects_and_begins_with_what_was_tested_longest_ago() -> None:
    book = book_of("n-1", "n-2", "n-3")
    diagnose(book, "n-1", after(1))
    suspect(book, "n-3", after(60))
    assert due(book, (), Schedule(1), after(70)) == Due(("n-3", "n-1", "n-2"), thorough=False)
    diagnose(book, "n-3", after(70))
    assert due(book, (), Schedule(1), after(71)) == Due(("n-2", "n-1"), thorough=True)


@pytest.mark.parametrize(
    ("hours", "hour", "is_open"),
    [("", 3, True), ("1-5", 1, True), ("1-5", 5, False), ("22-4", 23, True), ("22-4", 3, True), ("22-4", 12, False)],
)
def test_a_schedule_is_open_in_its_hours(hours: str, hour: int, is_open: bool) -> None:  # a table
    assert Schedule.parse(24, hours).is_open(NOON.replace(hour=hour)) is is_open


@pytest.mark.parametrize("hours", ["1", "1-24", "night", "1-5-7"])
def test_what_are_no_hours_is_refused(hours: str) -> None:
    with pytest.raises(ValueError, match="write them as 1-5 or 22-4"):
        Schedule.parse(24, hours)


def test_a_node_that_an_admin_wants_back_is_tested_at_once_unless_a_job_is_on_it() -> None:
    book = book_of("n-1", "n-2", "n-3")
    diagnose(book, "n-2", NOON, verdict="red")
    tell(book, ev.NodeJudged(cluster="main", node="n-2", health="bad"), "n-2", NOON)
    tell(book, ev.NodeRecalled(cluster="main", node="n-2", by="root", reason="x"), "n-2", after(1))
    assert due(book, {"n-2"}, NEVER, after(1)).nodes == ()
    assert due(book, (), NEVER, after(1)).nodes == ("n-2", "n-1", "n-3")
    diagnose(book, "n-2", after(2), verdict="red")
    assert due(book, (), NEVER, after(3)).nodes == ()
    assert due(book, (), NEVER, after(62)).nodes == ("n-2", "n-1", "n-3")


def test_a_recalled_node_whose_test_was_broken_off_is_tested_ten_minutes_later_or_when_recalled_again() -> None:
    book = book_of("n-1")
    tell(book, ev.NodeJudged(cluster="main", node="n-1", health="bad"), "n-1", NOON)
    again = ev.NodeRecalled(cluster="main", node="n-1", by="root", reason="x")
    tell(book, again, "n-1", after(1))
    diagnose(book, "n-1", after(2), fresh=False)
    assert due(book, (), NEVER, after(11)).nodes == ()
    assert due(book, (), NEVER, after(12)).nodes == ("n-1",)
    tell(book, again, "n-1", after(3))
    assert due(book, (), NEVER, after(3)).nodes == ("n-1",)


def test_no_share_of_a_machine_is_checked_while_a_job_is_on_another() -> None:
    book = Book()
    for number, machine in enumerate(("m-1", "m-1", "m-2"), start=1):
        labels = {"machine": machine}
        report = ev.NodeReported(cluster="main", node=f"n-{number}", cpu_millis=1, memory_bytes=1, labels=labels)
        tell(book, report, f"n-{number}", NOON)
        suspect(book, f"n-{number}", NOON)
    assert due(book, {"n-1"}, NEVER, after(30)).nodes == ("n-3",)
    assert set(due(book, (), NEVER, after(30)).nodes) == {"n-1", "n-2", "n-3"}
