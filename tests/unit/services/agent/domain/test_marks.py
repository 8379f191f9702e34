"""Times of bytes: told for every offset, never earlier than true, few enough for a header."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.agent.domain.marks import MAX_MARKS, Marks

growth = st.lists(st.tuples(st.integers(1, 100), st.integers(0, 50)), min_size=1, max_size=400)


def grown(steps: list[tuple[int, int]]) -> tuple[Marks, list[int]]:
    """Marks after the steps, and the true time of each byte."""
    marks, times, size, now = Marks(), [], 0, 1000
    for count, pause in steps:
        size, now = size + count, now + pause
        marks.grown(size, now)
        times += [now] * count
    return marks, times


@given(growth, st.data())
def test_the_time_of_a_byte_is_told_and_never_too_early(steps: list[tuple[int, int]], data: st.DataObject):
    marks, times = grown(steps)
    start = data.draw(st.integers(0, len(times) - 1))
    stop = data.draw(st.integers(start + 1, len(times)))
    pairs = marks.between(start, stop)
    assert pairs[0][0] == start
    assert [offset for offset, _ in pairs] == sorted({offset for offset, _ in pairs})
    assert len(pairs) <= MAX_MARKS
    for offset, millis in pairs:
        assert times[offset] <= millis <= times[-1]
    if len(steps) <= MAX_MARKS:
        assert all(times[offset] == millis for offset, millis in pairs)


@given(growth, st.data())
def test_forgetting_what_is_kept_changes_nothing_behind_it(steps: list[tuple[int, int]], data: st.DataObject):
    marks, times = grown(steps)
    kept = data.draw(st.integers(0, len(times)))
    before = marks.between(kept, len(times))
    marks.forget_before(kept)
    assert marks.between(kept, len(times)) == before


def test_a_file_that_does_not_grow_has_no_new_marks():
    marks = Marks()
    marks.grown(10, 1000)
    marks.grown(10, 2000)
    assert marks.between(0, 10) == ((0, 1000),)
