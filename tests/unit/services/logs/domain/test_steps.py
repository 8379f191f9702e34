"""First steps are read off the hook's lines, off lines that count steps, and compared over the same steps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from services.logs.domain.steps import (
    RANKS_MAX,
    WINDOWS,
    WINDOWS_MAX,
    HookLine,
    Point,
    are_complete,
    bounded,
    compared,
    hook_lines,
    points_of_lines,
    rank_steps,
)
from shared.events import RankSteps


def line(step: int = 20, rank: int = 0, world: int = 2, left: int = 1) -> HookLine:
    return HookLine(step, rank, world, compute_ms=20.5, wait_ms=3.0, data_ms=0.25, left=left)


def steady(step_s: float, steps: int = 100, first: int = 0, start_s: float = 1000.0) -> list[Point]:
    return [Point(first + step, start_s + step * step_s) for step in range(steps)]


def ranks(count: int) -> list[RankSteps]:
    return [
        RankSteps(role="worker", index=n, rank=n, last_steps=(20,), compute_ms=(20,), wait_ms=(count - n,))
        for n in range(count)
    ]


TEXT = b"TM_STEPS=20 rank=0/2 compute_ms=20.500 wait_ms=3.000 data_ms=0.250 left=1\n"


@pytest.mark.parametrize("around", [b"%b", b"[rank0]: %b", b"INFO - %b", b"45%%|###   | 4/9 [00:01<00:02]%b", b"\r%b"])
def test_lines_of_the_hook_are_found_whatever_is_around_them(around: bytes) -> None:
    assert list(hook_lines(b"step 1\n" + around % TEXT + b"step 2\n")) == [line()]


@pytest.mark.parametrize(
    "text", [b"", b"TM_STEPS=", TEXT[:40], TEXT.replace(b"20.500", b"nan"), TEXT.replace(b"rank=0/2", b"rank=x/2")]
)
def test_what_is_no_whole_line_of_the_hook_is_none(text: bytes) -> None:
    assert list(hook_lines(text)) == []


def test_a_rank_has_each_window_once_in_order() -> None:
    found = rank_steps(("worker", 1), [line(30), line(20), line(30)])
    assert (found.role, found.index, found.rank) == ("worker", 1, 0)
    assert (found.last_steps, found.compute_ms, found.wait_ms) == ((20, 30), (20.5, 20.5), (3.0, 3.0))


def test_only_the_first_windows_count_however_many_lines_somebody_prints() -> None:
    assert rank_steps(("worker", 1), [line(step) for step in range(1000)]).last_steps == tuple(range(WINDOWS_MAX))


def test_it_is_complete_when_every_rank_of_the_job_has_said_all() -> None:
    assert not are_complete([])
    assert not are_complete([line(rank=0, left=0), line(rank=1, left=1)])
    assert not are_complete([line(rank=0, left=0)])
    assert are_complete([line(rank=0, left=0), line(rank=1, left=1), line(rank=1, left=0)])


def test_points_are_taken_from_lines_that_count_steps_until_they_are_counted_anew() -> None:
    told = [(1.0, "loading"), (2.0, "step 5 loss 1"), (2.5, "step 5 saved"), (3.0, "step 10 loss 1"), (9.0, "step 5")]
    assert points_of_lines(told) == [Point(5, 2.0), Point(10, 3.0)]


def test_replicas_are_compared_over_the_steps_that_all_of_them_made() -> None:
    fast, slow = compared({("a", 0): steady(1.0, first=10), ("a", 1): steady(1.5, start_s=5000)}, 1.0)
    assert fast.last_steps == slow.last_steps
    assert (len(fast.last_steps), fast.last_steps[-1]) == (WINDOWS, 99)
    assert (set(fast.compute_ms), set(slow.compute_ms)) == ({1000}, {1500})
    assert fast.wait_ms == ()


@pytest.mark.parametrize(
    "points",
    [
        {},
        {("a", 0): steady(1.0, steps=1)},
        {("a", 0): steady(1.0), ("a", 1): steady(1.0, first=200)},
        {("a", 0): steady(1.0, steps=WINDOWS)},
        {("a", 0): steady(0.001), ("a", 1): steady(1.0)},
    ],
    ids=["nothing", "one point", "no common steps", "few steps", "too short for the clock"],
)
def test_what_cannot_be_compared_is_left_out(points: dict[tuple[str, int], Sequence[Point]]) -> None:
    assert compared(points, least_window_s=1.0) == []


def test_of_many_ranks_those_that_waited_least_are_told_and_some_of_all_others() -> None:
    told = bounded(ranks(5000))
    assert len(told) == RANKS_MAX
    assert {rank.rank for rank in told} >= set(range(5000 - RANKS_MAX // 2, 5000))
    assert min(rank.rank for rank in told) < 50
    assert bounded(ranks(RANKS_MAX)) == tuple(ranks(RANKS_MAX))
