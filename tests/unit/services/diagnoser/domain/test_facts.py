"""Facts of a node with their limits."""

from __future__ import annotations

import pytest

from services.diagnoser.domain.facts import Floors, facts_of
from services.diagnoser.domain.readings import Reading
from shared.events import FigureMeasured
from tests.support.probes import measurement


def facts(**changes: object) -> dict[str, FigureMeasured]:
    return {fact.name: fact for fact in facts_of(Reading(measurement(**changes), 1_000_000, 1_000_000), Floors())}


def test_a_fact_has_its_limit_and_on_which_side_of_it_is_good() -> None:
    room, clock = facts()["room in /dev/shm"], facts(unix_ms=1_000_250)["clock off by"]
    assert (room.value, room.unit, room.floor, room.less_is_better, room.why) == (1024.0, "MiB", 16.0, False, "")
    assert (clock.value, clock.unit, clock.floor, clock.less_is_better, clock.why) == (0.25, "s", 1.0, True, "")


@pytest.mark.parametrize("off_s", [-7.0, -2.0, -1.3, 1.3, 2.0, 7.0])
def test_a_clock_that_is_behind_is_told_as_one_that_is_ahead_however_long_the_look_took(off_s: float) -> None:
    """Asked at 1,000 s by our clock, heard 0.2 s later, answered after 3 s, had 0.1 s later."""
    off_ms = int(off_s * 1000)
    measured = measurement(heard_unix_ms=1_000_200 + off_ms, sent_unix_ms=1_003_200 + off_ms)
    clock, known = (
        next(fact for fact in facts_of(Reading(measured, 1_000_000, 1_003_300), Floors()) if fact.name == name)
        for name in ("clock off by", "clock known to within")
    )
    assert clock.value == pytest.approx(abs(off_s), abs=0.051)
    assert (known.value, known.unit) == (0.15, "s")
    assert ("ahead" if off_s > 0 else "behind") in clock.why


def test_a_clock_that_may_be_right_is_not_called_wrong() -> None:
    slow = Reading(measurement(heard_unix_ms=1_000_100, sent_unix_ms=1_000_200), 1_000_000, 1_004_000)
    (clock,) = (fact for fact in facts_of(slow, Floors()) if fact.name == "clock off by")
    assert (clock.value, clock.why) == (1.85, "")


def test_the_one_that_breaks_its_limit_says_so() -> None:
    found = facts(open_files=256, load=99.0)
    assert {name for name, fact in found.items() if fact.why} == {"open files"}
    assert found["load"].floor is None
