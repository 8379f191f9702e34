"""What the ledger says of a node when somebody asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from services.diagnoser.domain.beliefs import LINK_IS_BAD, Belief
from services.diagnoser.domain.book import Book
from services.diagnoser.domain.entries import Entry, entry_of
from shared import events as ev
from shared.jobs import Recorded

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(*payloads: ev.Payload, node: str = "n-1", now: datetime = NOW) -> Entry | None:
    book = Book()
    for payload in payloads:
        event = ev.Event.of(payload, job="n-1", attempt=0, time=NOW, owner="", project="")
        book.take(Recorded(1, f"tm.node.main.n-1.{payload.SUFFIX}", event))
    return entry_of(book, node, now)


def diagnosed(*beliefs: ev.PartBelief) -> ev.NodeDiagnosed:
    return ev.NodeDiagnosed(
        cluster="main", node="n-1", diagnosis="dg-1", began=NOW, took_s=1, verdict="green", beliefs=beliefs
    )


def believed(part: str, belief: Belief) -> ev.PartBelief:
    return ev.PartBelief(part=part, suspicion=belief.suspicion, evidence=belief.evidence, fails=belief.fails)


def test_a_node_that_passed_tells_until_when_that_holds() -> None:
    found = entry(diagnosed())
    assert found is not None
    assert found.pass_until == NOW + timedelta(hours=24)
    late = entry(diagnosed(), now=NOW + timedelta(hours=25))
    assert late is not None
    assert late.pass_until is None


def test_a_slow_rank_ends_the_pass_and_makes_the_node_suspect() -> None:
    lagged = ev.NodeLagged(cluster="main", node="n-1", job="tj-a", attempt=1, rank=2, reason="slow")
    found = entry(diagnosed(), lagged)
    assert found is not None
    assert found.belief.is_suspect
    assert found.pass_until is None


def test_doubtful_devices_and_links_of_the_node_are_told_the_worst_first() -> None:
    doubt, link = Belief().after(fails=1), Belief(prior=LINK_IS_BAD).after(fails=3)
    found = entry(
        diagnosed(
            believed("n-1/cpu-0", doubt),
            believed("n-0--n-1", link),
            believed("n-1/cpu-1", Belief().after(passes=3)),
            believed("n-10/cpu-0", doubt),
        )
    )
    assert found is not None
    assert list(found.parts) == ["n-0--n-1", "n-1/cpu-0"]


def test_of_a_node_that_nobody_told_of_there_is_no_entry() -> None:
    assert entry(diagnosed(), node="n-2") is None
