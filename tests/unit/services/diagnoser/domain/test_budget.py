"""How long a diagnosis will take, told before it begins."""

from __future__ import annotations

import pytest

from services.diagnoser.domain.budget import END_S, Plan, budget_s, left_s, limit_s, most_s
from services.diagnoser.domain.stages import Profile

EIGHT = tuple(f"GPU-{number}" for number in range(8))


def plan(count: int, *, gpus: bool = False, fresh: bool = True, shares: int = 1, **more: object) -> Plan:
    nodes = tuple(f"n-{number}" for number in range(count))
    machines = {node: f"m-{number // shares}" for number, node in enumerate(nodes)}
    devices = dict.fromkeys(nodes, EIGHT) if gpus else {}
    return Plan(nodes, nodes if fresh else (), machines, devices, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("planned", "at_most_s"),
    [
        (plan(1, gpus=True), 240),
        (plan(256, gpus=True), 480),
        (plan(256, gpus=True, fresh=False), 90),
        (plan(1), 30),
        (plan(4, shares=4), 90),
        (plan(4, shares=4, fresh=False), 20),
        (plan(4, shares=4, fresh=False, meets=False), 2),
        (plan(1, fresh=False), 2),
    ],
)
def test_the_planned_budget_is_within_what_is_promised(planned: Plan, at_most_s: float) -> None:
    assert 0 < budget_s(planned) <= at_most_s
    assert budget_s(planned) <= most_s(planned)


def test_gpus_and_shares_of_a_machine_take_longer_and_stages_that_are_off_no_time() -> None:
    assert budget_s(plan(1)) < budget_s(plan(1, gpus=True))
    assert budget_s(plan(4)) < budget_s(plan(4, shares=4))
    none = Profile(off=frozenset({"compute", "memory", "hostDevice", "devices", "pairs", "gang"}))
    assert budget_s(plan(4, gpus=True, profile=none)) == 28.0


def test_times_of_the_profile_are_counted() -> None:
    shorter = Profile(seconds={"compute": 30.0, "gang": 5.0})
    assert budget_s(plan(4, gpus=True)) - budget_s(plan(4, gpus=True, profile=shorter)) == 60 + 15


def test_nvidias_own_tests_are_counted() -> None:
    assert budget_s(plan(1, gpus=True, deep=2)) - budget_s(plan(1, gpus=True)) == 900


def test_nothing_takes_longer_than_was_told_however_long_looks_have_taken() -> None:
    for planned in (plan(4), plan(4, shares=4), plan(64, gpus=True), plan(2, look_s=50.0)):
        for looks_s in (1.0, 20.0, 2 * planned.look_s):
            assert looks_s + left_s(planned, looks_s) + END_S <= most_s(planned)
            assert 0 <= left_s(planned, looks_s) <= limit_s(planned)


def test_where_passes_hold_it_is_the_time_of_two_looks_at_most() -> None:
    assert most_s(plan(4, fresh=False, meets=False)) == 60 + END_S


def test_all_pairs_of_a_few_shares_of_one_machine_are_counted() -> None:
    assert budget_s(plan(8, shares=8)) - budget_s(plan(8, shares=8, profile=Profile(off=frozenset({"pairs"})))) == 11.2


def test_tests_are_limited_by_what_is_promised() -> None:
    assert (limit_s(plan(4)), limit_s(plan(256, gpus=True))) == (80, 420)


@pytest.mark.parametrize(("planned", "at_most_s"), [(plan(1, gpus=True), 240), (plan(256, gpus=True), 480)])
def test_gpus_are_tested_within_what_is_promised_also_with_suspects(planned: Plan, at_most_s: float) -> None:
    assert most_s(planned) <= at_most_s
