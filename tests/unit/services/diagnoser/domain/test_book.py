"""What the ledger remembers, for how long, and what it forgets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from services.diagnoser.domain.beliefs import Belief
from services.diagnoser.domain.book import Book, pair_figure
from shared import events as ev
from shared.jobs import Recorded

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIGURE = ev.FigureMeasured(name="multiplication", value=90.0, unit="ms", device="cpu-0")
PAIR = ev.PairMeasured(first="n-1", second="n-2", verdict="green", tests=2, bandwidth_mb_s=1000.0)


def book_of(*payloads: ev.Payload, at: datetime = NOW) -> Book:
    book = Book()
    for payload in payloads:
        event = ev.Event.of(payload, job="n-1", attempt=0, time=at, owner="", project="")
        book.take(Recorded(1, f"tm.node.main.n-1.{payload.SUFFIX}", event))
    return book


def diagnosed(**changes: object) -> ev.NodeDiagnosed:
    fields = {"cluster": "main", "node": "n-1", "diagnosis": "dg-1", "began": NOW, "tookS": 1, "kind": "EPYC"}
    return ev.NodeDiagnosed.model_validate(
        {**fields, "verdict": "green", "figures": (FIGURE,), "pairs": (PAIR,), **changes}
    )


def suspected() -> ev.NodeSuspected:
    return ev.NodeSuspected(cluster="main", node="n-1", job="tj-a", attempt=1, rule="xid-79")


def lagged(job: str = "tj-a") -> ev.NodeLagged:
    return ev.NodeLagged(cluster="main", node="n-1", job=job, attempt=1, rank=2, reason="slow")


def marked(wish: str) -> ev.NodeMarked:
    return ev.NodeMarked.model_validate({"cluster": "main", "node": "n-1", "wish": wish, "by": "ada", "reason": "work"})


def reported(cpu_millis: int) -> ev.NodeReported:
    return ev.NodeReported(cluster="main", node="n-1", cpu_millis=cpu_millis, memory_bytes=1)


def test_a_pass_holds_for_a_day() -> None:
    book = book_of(diagnosed())
    assert book.is_valid("n-1", NOW + timedelta(hours=23.9))
    assert not book.is_valid("n-1", NOW + timedelta(hours=24))
    assert not book.is_valid("n-2", NOW)


@pytest.mark.parametrize(
    "since",
    [
        suspected(),
        lagged(),
        marked("Ready"),
        marked("Quarantined"),
        diagnosed(verdict="amber"),
        diagnosed(verdict="red"),
    ],
)
def test_whatever_is_heard_of_a_node_since_ends_its_pass(since: ev.Payload) -> None:
    assert not book_of(diagnosed(), since).is_valid("n-1", NOW)


def test_other_hardware_ends_a_pass_and_the_same_reported_again_does_not() -> None:
    assert not book_of(reported(4000), diagnosed(), reported(8000)).is_valid("n-1", NOW)
    assert book_of(reported(4000), diagnosed(), reported(4000)).is_valid("n-1", NOW)


def test_a_look_alone_neither_makes_nor_prolongs_a_pass() -> None:
    assert not book_of(diagnosed(fresh=False)).is_valid("n-1", NOW)


def test_a_suspicion_after_a_failed_job_makes_a_suspect_until_it_has_faded() -> None:
    book = book_of(suspected())
    assert list(book.suspects(NOW)) == ["n-1"]
    assert book.suspects(NOW + timedelta(days=30)) == {}


def test_a_rank_that_held_others_up_makes_a_suspect_though_less_than_a_failed_job_does() -> None:
    book = book_of(lagged())
    assert 0.05 <= book.suspects(NOW)["n-1"] < book_of(suspected()).suspects(NOW)["n-1"] < 0.5


def test_slow_ranks_count_once_for_each_job() -> None:
    once, twice = book_of(lagged()).suspects(NOW)["n-1"], book_of(lagged(), lagged("tj-b")).suspects(NOW)["n-1"]
    assert book_of(lagged(), lagged()).suspects(NOW)["n-1"] == once
    assert twice > 0.5


def test_jobs_that_say_so_again_and_again_do_not_convict_a_node() -> None:
    many = book_of(*(lagged(f"tj-{number}") for number in range(50)))
    assert many.suspects(NOW)["n-1"] == book_of(lagged(), lagged("tj-b")).suspects(NOW)["n-1"] < 0.6


def test_beliefs_of_a_diagnosis_are_remembered_and_fade() -> None:
    belief = Belief().after(fails=2)
    part = ev.PartBelief(part="n-1/cpu-0", suspicion=belief.suspicion, evidence=belief.evidence, fails=2)
    book = book_of(diagnosed(beliefs=(part,)))
    assert book.known(["n-1"], NOW)["n-1/cpu-0"] == belief
    later = book.belief("n-1/cpu-0", NOW + timedelta(days=3))
    assert 0 < later.fails < 2
    assert later.suspicion < belief.suspicion


def test_what_is_known_of_a_link_is_told_only_where_both_of_its_nodes_take_part() -> None:
    part = ev.PartBelief(part="n-1--n-2", suspicion=0.5, evidence=(1.0,) * 4, fails=1)
    book = book_of(diagnosed(beliefs=(part,)))
    assert set(book.known(["n-1", "n-2"], NOW)) == {"n-1--n-2"}
    assert book.known(["n-1", "n-3"], NOW) == {}


def test_an_admin_who_restores_a_node_clears_it() -> None:
    assert book_of(suspected(), marked("Ready")).suspects(NOW) == {}


def test_values_of_green_nodes_are_what_later_ones_are_compared_with() -> None:
    book = book_of(diagnosed())
    assert book.fleet("EPYC", "multiplication") == (90.0,)
    assert book.fleet("EPYC", pair_figure("tcp")) == (1000.0,)
    assert book.own("n-1", "multiplication/cpu-0") == (90.0,)
    assert (
        book.fleet("XEON", "multiplication")
        == book_of(diagnosed(verdict="amber")).fleet("EPYC", "multiplication")
        == ()
    )


def test_a_diagnosis_with_pretended_faults_leaves_nothing() -> None:
    part = ev.PartBelief(part="n-1", suspicion=0.99, evidence=(9.0,) * 4, fails=3)
    book = book_of(diagnosed(), diagnosed(injected=("flaky:n-1:1",), verdict="red", beliefs=(part,)))
    assert book.is_valid("n-1", NOW)
    assert book.suspects(NOW) == {}
    assert book.fleet("EPYC", "multiplication") == (90.0,)


def test_what_was_believed_of_a_node_and_its_devices_is_void_when_an_admin_wants_it_back() -> None:
    parts = [ev.PartBelief(part=part, suspicion=0.9, evidence=(9.0,) * 4, fails=3) for part in ("n-1", "n-1/cpu-0")]
    back = ev.NodeRecalled(cluster="main", node="n-1", by="ada", reason="a new fan")
    for order in (back, marked("Ready")):
        book = book_of(diagnosed(verdict="red", beliefs=parts), order)
        assert {part: belief.is_suspect for part, belief in book.known(["n-1"], NOW).items()} == {}


def test_a_node_is_wanted_back_until_it_was_tested_and_not_only_looked_at() -> None:
    back = ev.NodeRecalled(cluster="main", node="n-1", by="ada", reason="a new fan")
    assert book_of(diagnosed(), back, diagnosed(fresh=False)).pages["n-1"].wanted_back_at == NOW
    assert book_of(diagnosed(), back, diagnosed(verdict="red")).pages["n-1"].wanted_back_at is None


def test_a_problem_that_a_look_has_shown_answers_a_recall_and_what_was_begun_before_it_does_not() -> None:
    back = ev.NodeRecalled(cluster="main", node="n-1", by="ada", reason="a new fan")
    assert book_of(back, diagnosed(fresh=False, verdict="red")).pages["n-1"].wanted_back_at is None
    begun_before = diagnosed(verdict="red", began=NOW - timedelta(seconds=1))
    assert book_of(back, begun_before).pages["n-1"].wanted_back_at == NOW


def judged(health: str) -> ev.NodeJudged:
    return ev.NodeJudged.model_validate({"cluster": "main", "node": "n-1", "health": health})


LATER = NOW + timedelta(seconds=1)


def told(book: Book, payload: ev.Payload, at: datetime) -> Book:
    event = ev.Event.of(payload, job="n-1", attempt=0, time=at, owner="", project="")
    book.take(Recorded(2, f"tm.node.main.n-1.{payload.SUFFIX}", event))
    return book


def test_a_node_that_jobs_speak_against_is_told_to_be_suspect_once() -> None:
    (tells,) = book_of(suspected()).newly_suspected(NOW)
    assert (tells.health, tells.job, tells.reason) == ("suspect", "tj-a", "a job failed on it (xid-79)")
    assert list(told(book_of(suspected()), tells, LATER).newly_suspected(LATER)) == []
    assert list(told(book_of(judged("bad")), suspected(), LATER).newly_suspected(LATER)) == []


def test_a_new_sign_after_a_pass_is_told_again_and_an_old_one_is_not() -> None:
    passed = told(book_of(suspected()), judged("good"), LATER)
    assert list(passed.newly_suspected(LATER)) == []
    again = told(passed, suspected(), LATER + timedelta(seconds=1))
    assert [each.health for each in again.newly_suspected(LATER)] == ["suspect"]


def test_a_suspicion_that_faded_or_was_forgiven_is_not_told() -> None:
    assert list(book_of(suspected()).newly_suspected(NOW + timedelta(days=60))) == []
    assert list(book_of(suspected(), marked("Ready")).newly_suspected(NOW)) == []


def test_a_rank_that_held_others_up_is_told_and_counts_as_no_problem_for_a_job() -> None:
    (tells,) = book_of(lagged()).newly_suspected(NOW)
    assert (tells.health, tells.job) == ("suspect", "")
