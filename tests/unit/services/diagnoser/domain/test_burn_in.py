"""Which rank of a job's first steps is suspect, and that noise, hiccups and uneven work make nobody one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.diagnoser.domain.burn_in import judge_steps
from shared.events import BurnInJudged, RankSteps, StepsMeasured

WINDOWS = 12
TRANSFER_MS = 3.0
Ranks = list[RankSteps]


def rank(number: int, compute: Sequence[float], waits: Sequence[float] = (), data: Sequence[float] = ()) -> RankSteps:
    steps = tuple(20 + 10 * window for window in range(len(compute)))
    return RankSteps(
        role="worker",
        index=number,
        rank=number,
        last_steps=steps,
        compute_ms=tuple(compute),
        wait_ms=tuple(waits),
        data_ms=tuple(data),
    )


def synchronous(
    own: Callable[[int, int], float], ranks: int, windows: int = WINDOWS, transfer_ms: float = 3.0
) -> Ranks:
    """Ranks that wait for the slowest of them in each window; `own` gives what a rank needs itself in a window."""
    found = []
    for number in range(ranks):
        needed = [own(number, window) for window in range(windows)]
        slowest = [max(own(each, window) for each in range(ranks)) for window in range(windows)]
        waits = [most - mine + TRANSFER_MS for most, mine in zip(slowest, needed, strict=True)]
        found.append(rank(number, needed, waits))
    return found


def judged(ranks: Ranks, source: Literal["hook", "log", "scalars"] = "hook") -> BurnInJudged:
    places = {(each.role, each.index): f"n-{each.index}" for each in ranks}
    return judge_steps(StepsMeasured(source=source, ranks=tuple(ranks)), places)


def suspects(ranks: Ranks, source: Literal["hook", "log", "scalars"] = "hook") -> list[str]:
    return [suspect.node for suspect in judged(ranks, source).suspects]


def noise(seed: int, ranks: int, part: float) -> list[list[float]]:
    chance = random.Random(seed)  # noqa: S311
    return [[1 + chance.uniform(-part, part) for _ in range(WINDOWS)] for _ in range(ranks)]


@given(
    seed=st.integers(0, 2**32),
    ranks=st.integers(3, 40),
    base_ms=st.floats(0.5, 5000),
    part=st.floats(0, 0.06),
)
@settings(max_examples=60, deadline=None)
def test_equal_ranks_with_noise_are_no_suspects(seed: int, ranks: int, base_ms: float, part: float) -> None:
    shaken = noise(seed, ranks, part)
    assert suspects(synchronous(lambda number, window: base_ms * shaken[number][window], ranks)) == []


@given(
    seed=st.integers(0, 2**32),
    ranks=st.integers(3, 40),
    base_ms=st.floats(20, 5000),
    slower=st.floats(1.25, 20),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_a_rank_that_is_a_quarter_slower_is_found(
    seed: int, ranks: int, base_ms: float, slower: float, data: st.DataObject
) -> None:
    slow = data.draw(st.integers(0, ranks - 1))
    shaken = noise(seed, ranks, 0.015)
    found = synchronous(lambda n, window: base_ms * shaken[n][window] * (slower if n == slow else 1), ranks)
    assert suspects(found) == [f"n-{slow}"]


@given(seed=st.integers(0, 2**32), ranks=st.integers(3, 16))
@settings(max_examples=40, deadline=None)
def test_hiccups_of_any_rank_in_some_windows_raise_nothing(seed: int, ranks: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    hiccups = [set(chance.sample(range(WINDOWS), k=3)) for _ in range(ranks)]
    assert suspects(synchronous(lambda number, window: 500 if window in hiccups[number] else 50, ranks)) == []


def test_on_ranks_that_vary_a_lot_half_as_slow_again_is_found_all_the_same() -> None:
    found = 0
    for seed in range(20):
        shaken = noise(seed, 8, 0.12)
        ranks = synchronous(lambda n, window, shaken=shaken: 100 * shaken[n][window] * (1.5 if n == 3 else 1), 8)
        found += suspects(ranks) == ["n-3"]
    assert found == 20


def test_the_reason_has_the_figures() -> None:
    (suspect,) = judged(synchronous(lambda number, _window: 40 if number == 2 else 20, 4)).suspects
    assert (suspect.rank, suspect.node, suspect.compute_ms, suspect.middle_ms, suspect.windows) == (
        2,
        "n-2",
        40,
        20,
        12,
    )
    assert suspect.why == (
        "rank 2 (worker-2) needs 40 ms for a step, 200 % of the 20 ms that the others need in the middle, "
        "in 12 of 12 windows; they wait 20 ms longer than it does"
    )


def test_what_is_many_times_as_slow_is_told_as_such() -> None:
    (suspect,) = judged(synchronous(lambda number, _window: 400 if number == 2 else 20, 4)).suspects
    assert "needs 400 ms for a step, 20 times the 20 ms that" in suspect.why


def test_a_rank_that_nobody_waits_for_is_no_suspect() -> None:
    ranks = [rank(number, [40 if number == 2 else 20] * WINDOWS, [3] * WINDOWS) for number in range(4)]
    assert suspects(ranks) == []


def test_time_that_went_into_waiting_for_data_is_not_the_ranks_own() -> None:
    ranks = synchronous(lambda number, _window: 40 if number == 2 else 20, 4)
    starving = ranks[2].model_copy(update={"data_ms": (20.0,) * WINDOWS})
    assert suspects([*ranks[:2], starving, ranks[3]]) == []


def test_a_few_hundred_microseconds_are_no_sign_however_large_a_part_they_are() -> None:
    assert suspects(synchronous(lambda number, _window: 1.9 if number == 0 else 0.4, 4)) == []


def test_of_step_times_alone_the_ones_that_stand_out_are_suspect() -> None:
    ranks = [rank(number, [150 if number == 1 else 100] * WINDOWS) for number in range(5)]
    assert suspects(ranks, "log") == ["n-1"]


def test_without_the_hook_roles_are_not_compared_with_each_other() -> None:
    workers = [rank(number, [100] * WINDOWS) for number in range(4)]
    other = rank(4, [500] * WINDOWS).model_copy(update={"role": "evaluator"})
    assert suspects([*workers, other], "log") == []
    assert suspects([*workers, other], "hook") == ["n-4"]


def test_where_many_nodes_look_slow_it_is_the_work() -> None:
    found = judged(synchronous(lambda number, _window: 40 if number < 3 else 20, 8))
    assert found.suspects == ()
    assert "3 of 8 nodes" in found.message


def test_two_ranks_of_one_node_are_two_suspects_on_it() -> None:
    ranks = synchronous(lambda number, _window: 40 if number in (2, 3) else 20, 8)
    places = {("worker", number): f"n-{number // 2}" for number in range(8)}
    found = judge_steps(StepsMeasured(source="hook", ranks=tuple(ranks)), places)
    assert [(suspect.rank, suspect.node) for suspect in found.suspects] == [(2, "n-1"), (3, "n-1")]


@pytest.mark.parametrize("ranks", [0, 1, 2])
def test_of_one_or_two_ranks_nobody_can_be_told_apart(ranks: int) -> None:
    found = judged(synchronous(lambda number, _window: 40 if number else 20, ranks))
    assert found.suspects == ()
    assert "too few steps" in found.message


def test_a_few_windows_are_too_few() -> None:
    found = judged(synchronous(lambda number, _window: 40 if number else 20, 4, windows=3))
    assert (found.suspects, found.last_step) == ((), 40)
    assert "too few steps" in found.message


def test_what_is_told_of_a_replica_that_was_never_placed_names_no_node() -> None:
    ranks = synchronous(lambda number, _window: 40 if number == 2 else 20, 4)
    assert judge_steps(StepsMeasured(source="hook", ranks=tuple(ranks)), {("worker", 0): "n-0"}).suspects == ()
