"""How often garbage in cycles is looked for."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from shared.garbage import collect_rarely


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


def test_what_is_there_already_is_left_out_and_new_objects_are_looked_at_rarely():
    collect_rarely()
    assert gc.get_freeze_count() > 0
    before = gc.get_stats()[0]["collections"]
    made: list[list[int]] = [[number] for number in range(20_000)]
    assert len(made) == 20_000
    assert gc.get_stats()[0]["collections"] == before


def test_cycles_are_still_found():
    collect_rarely()
    collected = gc.get_stats()[0]["collected"]
    for _ in range(60_000):
        cycle: list[object] = []
        cycle.append(cycle)
    assert gc.get_stats()[0]["collected"] > collected
