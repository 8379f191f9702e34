"""Times within a frame: kept small, in order of the bytes, and none of them ever later than what it stands for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.frames import MARKS_MAX_BYTES, Frame
from services.logs.domain.marks import SPACING_BYTES, Mark, encode_marks, marks_of, offset_since, thinned, time_at

steps = st.lists(st.tuples(st.integers(1, 3 * SPACING_BYTES), st.integers(-5000, 100_000)), min_size=1, max_size=60)


def marks_from(given_steps: list[tuple[int, int]], millis: int = 1_790_000_000_000) -> list[Mark]:
    marks, offset = [], 5_000
    for step, change in given_steps:
        marks.append((offset, millis))
        offset, millis = offset + step, millis + change
    return marks


def frame_with(marks: list[Mark]) -> Frame:
    offset, millis = marks[0]
    packed = encode_marks(marks[1:], offset, millis)
    return Frame(1, 0, offset, 10**6, 0, 0, False, millis, marks[-1][1], 1, 0, packed)


@given(steps)
def test_marks_are_read_as_they_were_written(given_steps: list[tuple[int, int]]):
    marks = marks_from(given_steps)
    assert marks_of(frame_with(marks)) == marks


@given(steps)
def test_thinned_marks_are_some_of_them_and_few(given_steps: list[tuple[int, int]]):
    marks = marks_from(given_steps)
    few = thinned(marks)
    assert set(few) <= set(marks)
    assert few == sorted(few)
    assert (few[0], few[-1]) == (marks[0], marks[-1])
    assert len(few) <= 2 * ((marks[-1][0] - marks[0][0]) // SPACING_BYTES + 1)


@given(
    st.lists(st.tuples(st.integers(1, 3 * SPACING_BYTES), st.integers(0, 100_000)), min_size=1, max_size=60), st.data()
)
def test_what_was_seen_since_a_time_begins_at_the_offset_or_a_little_behind(
    given_steps: list[tuple[int, int]], data: st.DataObject
):
    marks = marks_from(given_steps)
    since = data.draw(st.integers(marks[0][1] - 5, marks[-1][1]))
    exact = offset_since(marks, since, exact=True)
    found = offset_since(thinned(marks), since)
    assert exact is not None
    assert found is not None
    assert found <= exact < found + SPACING_BYTES


def test_nothing_was_seen_since_a_later_time():
    assert offset_since([(0, 5), (10, 7)], 8) is None


def test_the_time_of_a_byte_is_that_of_the_mark_before_it():
    marks = [(10, 100), (20, 300), (30, 200)]
    assert [time_at(marks, offset) for offset in (5, 10, 19, 20, 35)] == [100, 100, 100, 300, 200]


def test_more_marks_than_there_is_room_for_are_left_out():
    marks = [(number * SPACING_BYTES, number * 10**9) for number in range(2000)]
    packed = encode_marks(marks, 0, 0)
    assert len(packed) <= MARKS_MAX_BYTES
    kept = marks_of(Frame(1, 0, 0, 1, 0, 0, False, 0, 0, 1, 0, packed))
    assert kept[1:] == marks[: len(kept) - 1]
