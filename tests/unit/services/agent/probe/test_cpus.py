"""What a CPU is given to multiply, and which of the times counts."""

from __future__ import annotations

import itertools

import pytest

from services.agent.probe import cpus
from services.diagnoser.domain.verdict import GOLDEN_CHECKSUM

PARTS = 2 * cpus.SIZE // cpus.PART_ROWS


def test_the_product_has_the_golden_checksum_each_time() -> None:
    products, best_ms = cpus.factors(), dict[tuple[int, int], float]()
    assert {cpus.compute_once(products, best_ms) for _ in range(cpus.TIMES)} == {GOLDEN_CHECKSUM}
    assert len(best_ms) == PARTS


def test_one_wrong_bit_of_one_factor_gives_another_checksum() -> None:
    (rows, columns), floats = cpus.factors()
    wrong = [[rows[0][0] + 1, *rows[0][1:]], *rows[1:]]
    assert cpus.compute_once([(wrong, columns), floats], {}) != GOLDEN_CHECKSUM


@pytest.mark.parametrize(("slow_times", "expected_ms"), [(1, 1.0), (2, 3.0)])
def test_of_each_part_the_quickest_time_counts(
    monkeypatch: pytest.MonkeyPatch, slow_times: int, expected_ms: float
) -> None:
    took_s = [0.003] * PARTS * slow_times + [0.001] * PARTS * (2 - slow_times)
    readings = itertools.chain.from_iterable((0.0, took) for took in took_s)
    monkeypatch.setattr(cpus.time, "thread_time", lambda: next(readings))
    best_ms: dict[tuple[int, int], float] = {}
    for _ in range(2):
        cpus.compute_once(cpus.factors(), best_ms)
    assert sum(best_ms.values()) == pytest.approx(PARTS * expected_ms)
