"""How long a diagnosis will take, told before it begins."""

from __future__ import annotations

import pytest

from services.diagnoser.domain.budget import Plan, budget_s, limit_s, most_s
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


def test_tests_are_limited_by_what_is_promised() -> None:
    assert (limit_s(plan(4)), limit_s(plan(256, gpus=True))) == (80, 420)
