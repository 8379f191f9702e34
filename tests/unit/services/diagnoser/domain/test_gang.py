"""What collectives of a whole gang say."""

from __future__ import annotations

import pytest

from services.diagnoser.domain.book import Book
from services.diagnoser.domain.gang import figures_of, halves, is_slow
from services.diagnoser.domain.gathered import GangValue, Gathered, PairValue
from services.diagnoser.domain.pairing import Pair
from services.diagnoser.domain.stages import Profile

NODES = ("n-1", "n-2", "n-3")


def gathered(transport: str = "nccl", machines: dict[str, str] | None = None, **floors: float) -> Gathered:
    pairs = tuple(
        PairValue(Pair("n-1", other), bandwidth, 5.0, transport=transport)
        for other, bandwidth in (("n-2", 20_000.0), ("n-3", 24_000.0))
    )
    return Gathered(
        NODES,
        machines or {},
        {},
        dict.fromkeys(NODES, ()),
        rounds=(pairs,),
        profiles=dict.fromkeys(NODES, Profile(floors=floors)),
    )


def value(all_reduce: float, transport: str = "nccl") -> GangValue:
    return GangValue(NODES, transport, {"allReduceMbS": all_reduce, "allToAllMbS": 9_000.0})


@pytest.mark.parametrize(("all_reduce", "slow"), [(18_100.0, False), (17_900.0, True)])
def test_an_all_reduce_must_reach_nine_tenths_of_the_slowest_pair(all_reduce: float, slow: bool) -> None:
    assert is_slow(value(all_reduce), gathered(), Book()) is slow


def test_nodes_that_share_a_machine_and_cpus_have_no_model() -> None:
    assert not is_slow(value(100.0), gathered(machines=dict.fromkeys(NODES, "m-1")), Book())
    assert not is_slow(value(100.0, "gloo"), gathered("gloo"), Book())


def test_a_floor_of_the_profile_holds_everywhere() -> None:
    slow = gathered("gloo", allToAllMbS=10_000.0)
    assert is_slow(value(100.0, "gloo"), slow, Book())
    figure = figures_of(value(100.0, "gloo"), slow, Book())[1]
    assert (figure.name, figure.floor) == ("all-to-all of 3 nodes over gloo", 10_000.0)
    assert "at least 1e+04 MB/s are needed" in figure.why


@pytest.mark.parametrize(("gangs", "slow"), [((950.0, 1000.0), False), ((950.0, 1000.0, 1050.0), True)])
def test_a_gang_is_compared_with_three_earlier_ones_at_least_each_of_which_counts_once(
    gangs: tuple[float, ...], slow: bool
) -> None:
    book, now = Book(), gathered("gloo", machines=dict.fromkeys(NODES, "m-1"))
    on_record = [figure for figure in gangs for _node in NODES]
    book.restore_fleet(now.kind("n-1"), "all-reduce of 3 nodes over gloo", on_record)
    assert is_slow(value(100.0, "gloo"), now, book) is slow


def test_leaves_are_halved() -> None:
    assert halves(("a", "b", "c")) == (("a",), ("b", "c"))
