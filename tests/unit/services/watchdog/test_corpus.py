"""Failures of whole gangs come out right, and lines that only look bad come out as nothing."""

from __future__ import annotations

import pytest

from services.watchdog.domain.rules import FailureClass
from tests.support.corpus import BEGIN_MS, BENIGN, ORIGINALS, Confusion, Line, Scenario, Watchdog, confusion


@pytest.fixture(scope="module")
def watchdog() -> Watchdog:
    return Watchdog()


@pytest.fixture(scope="module")
def judged() -> Confusion:
    return confusion()


@pytest.mark.parametrize("seed", [20, 31])
def test_root_replica_and_class_are_right_in_98_of_100(seed: int) -> None:
    judged = confusion(seed)
    wrong = "\n".join(f"{scenario.name}: {said}" for scenario, said in judged.wrong)
    assert judged.total >= 150
    assert judged.right >= 0.98, f"{judged.table()}\n{wrong}"


def test_every_class_is_among_them_often_enough_to_count(judged: Confusion) -> None:
    assert all(
        sum(judged.counts[str(true), said] for said in (*map(str, ORIGINALS), "none")) >= 20 for true in ORIGINALS
    )


@pytest.mark.parametrize("family", BENIGN)
def test_a_log_of_benign_lines_has_no_cause(family: str, watchdog: Watchdog) -> None:
    lines = [Line(index, BEGIN_MS + at, BENIGN[family]) for index in (0, 1) for at in range(0, 5_000, 500)]
    said = watchdog.judge(Scenario(family, "none", None, 2, lines))
    assert (said.failure_class, said.rule) == (None, None)


def test_there_are_twenty_families_of_benign_lines() -> None:
    assert len(BENIGN) >= 20


def test_a_watchdog_that_always_said_the_same_would_not_pass(judged: Confusion) -> None:
    """The figure is of use only where classes differ."""
    most = max(sum(judged.counts[str(true), str(said)] for said in ORIGINALS) for true in FailureClass)
    assert most / judged.total < 0.5
