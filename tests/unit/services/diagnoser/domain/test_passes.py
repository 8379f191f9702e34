"""What passes cover, and for how long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from services.diagnoser.domain.book import Book
from services.diagnoser.domain.passes import Passes, gang_name, stages_of_devices
from services.diagnoser.domain.stages import NODE_STAGES
from shared import events as ev
from shared.jobs import Recorded

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODES = ("n-1", "n-2", "n-3")
GANG = ("pairs", "gang")


def tell(book: Book, payload: ev.Payload, node: str, at: datetime = NOW) -> None:
    event = ev.Event.of(payload, job=node, attempt=0, time=at, owner="", project="")
    book.take(Recorded(1, f"tm.node.main.{node}.{payload.SUFFIX}", event))


def part(node: str, *partners: str, **changes: object) -> ev.NodeDiagnosed:
    pairs = [ev.PairMeasured(first=node, second=other, verdict="green", tests=1) for other in partners]
    fields = {"cluster": "main", "node": node, "diagnosis": "dg", "began": NOW, "took_s": 1, "verdict": "green"}
    return ev.NodeDiagnosed.model_validate({**fields, "stages": ("compute/cpus",), "pairs": pairs, **changes})


def book_of_three(**changes: object) -> Book:
    """Three nodes that passed together; the way between the last two was not tested."""
    book, name = Book(), gang_name(NODES, GANG)
    tell(book, part("n-1", "n-2", "n-3", gang=name, **changes), "n-1")
    tell(book, part("n-2", gang=name), "n-2")
    tell(book, part("n-3", gang=name), "n-3")
    return book


def test_a_pass_covers_the_stages_that_were_made() -> None:
    book = book_of_three()
    assert book.covers("n-1", ["compute/cpus"], NOW)
    assert not book.covers("n-1", ["compute/cpus", "memory/cpus"], NOW)
    assert not book.covers("n-1", ["compute/cpus"], NOW + timedelta(hours=24))


def test_a_part_from_before_stages_were_told_covers_all_of_a_node() -> None:
    assert book_of_three(stages=()).covers("n-1", stages_of_devices(NODE_STAGES, ()), NOW)


def test_ways_are_settled_that_were_tested_and_no_others() -> None:
    assert book_of_three().settled_links(NODES, (), NOW) == {"n-1--n-2", "n-1--n-3"}
    assert book_of_three().settled_links(NODES[1:], (), NOW) == frozenset()


def test_a_pass_of_cpus_or_of_one_gpu_covers_no_other_gpu() -> None:
    assert stages_of_devices(["compute"], ()) == ("compute/cpus",)
    book = book_of_three(stages=stages_of_devices(["compute"], ["gpu-1"]))
    assert book.covers("n-1", stages_of_devices(["compute"], ["gpu-1"]), NOW)
    assert not book.covers("n-1", stages_of_devices(["compute"], ["gpu-0", "gpu-1"]), NOW)
    assert not book.covers("n-1", stages_of_devices(["compute"], ()), NOW)


def test_the_way_from_gpu_to_gpu_is_another_one_than_between_machines() -> None:
    book = book_of_three()
    nccl = ev.PairMeasured(first="n-1", second="n-2", verdict="green", tests=1, transport="nccl")
    tell(book, part("n-1", pairs=(nccl,)), "n-1")
    assert book.settled_links(NODES, NODES, NOW) == {"n-1--n-2"}
    assert book.settled_links(NODES, NODES[:1], NOW) == {"n-1--n-2", "n-1--n-3"}


def test_a_gang_has_met_that_passed_the_same_stages_with_the_same_nodes() -> None:
    book = book_of_three()
    assert book.has_met(NODES, GANG, NOW)
    assert not book.has_met(NODES[:2], GANG, NOW)
    assert not book.has_met(NODES, ["gang"], NOW)
    assert not book.has_met(NODES, GANG, NOW + timedelta(hours=24))


@pytest.mark.parametrize(
    "event",
    [
        ev.NodeSuspected(cluster="main", node="n-2", job="tj-a", attempt=1, rule="xid-79"),
        ev.NodeMarked(cluster="main", node="n-2", wish="Draining", by="ada", reason="x"),
        ev.NodeRecalled(cluster="main", node="n-2", by="ada", reason="x"),
        part("n-2", verdict="amber"),
    ],
)
def test_what_is_heard_of_one_node_voids_its_ways_and_gangs_also_after_its_next_pass(event: ev.Payload) -> None:
    book = book_of_three()
    tell(book, event, "n-2")
    assert not book.has_met(NODES, GANG, NOW)
    assert book.settled_links(NODES, (), NOW) == {"n-1--n-3"}
    trusted = ev.PartBelief(part="n-2", suspicion=0.01, evidence=(0.0,) * 4, fails=0)
    tell(book, part("n-2", beliefs=(trusted,)), "n-2")
    assert book.covers("n-2", ["compute/cpus"], NOW)
    assert not book.has_met(NODES, GANG, NOW)
    assert book.settled_links(NODES, (), NOW) == {"n-1--n-3"}


def test_a_failed_or_pretended_test_settles_nothing() -> None:
    book = Book()
    failed = ev.PairMeasured(first="n-1", second="n-2", verdict="green", tests=2, failed=1)
    tell(book, part("n-1", pairs=(failed,)), "n-1")
    tell(book, part("n-2", "n-3", injected=("flaky:n-9:1",)), "n-2")
    tell(book, part("n-2"), "n-2")
    assert book.settled_links(NODES, (), NOW) == frozenset()


def test_old_ways_and_all_but_the_last_gangs_are_forgotten() -> None:
    passes = Passes()
    passes.take_link("n-2", NOW)
    passes.take_link("n-3", NOW + timedelta(hours=25))
    assert set(passes.links) == {"n-3"}
    for number in range(40):
        passes.take_gang(f"g-{number}", NOW)
    assert len(passes.gangs) == 16
    assert "g-39" in passes.gangs
