"""Facts of a node with their limits."""

from __future__ import annotations

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


def test_the_one_that_breaks_its_limit_says_so() -> None:
    found = facts(open_files=256, load=99.0)
    assert {name for name, fact in found.items() if fact.why} == {"open files"}
    assert found["load"].floor is None
