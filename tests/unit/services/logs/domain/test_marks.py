"""Times within a frame: kept small, in order of the bytes, and what was seen since a time is never missed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.frames import MARKS_MAX_BYTES, Frame
from services.logs.domain.marks import MARKS_MAX, Mark, Marks, encode_marks, marks_of, thinned

steps = st.lists(st.tuples(st.integers(1, 3000), st.integers(-5000, 100_000)), min_size=1, max_size=60)
forward = st.tuples(st.integers(1, 300), st.integers(0, 100_000))


def marks_from(given_steps: list[tuple[int, int]], millis: int = 1_790_000_000_000) -> list[Mark]:
    marks, offset = [], 5_000
    for step, change in given_steps:
        marks.append((offset, millis))
        offset, millis = offset + step, millis + change
    return marks


def frame_with(marks: Marks) -> Frame:
    offset, millis = marks.each[0]
    return Frame(1, 0, offset, 10**6, 0, 0, False, millis, marks.each[-1][1], 1, 0, encode_marks(marks))


@given(steps, st.integers(0, 10**6))
def test_marks_are_read_as_they_were_written(given_steps: list[tuple[int, int]], spacing: int):
    marks = Marks(tuple(marks_from(given_steps)), spacing)
    assert marks_of(frame_with(marks)) == marks


@given(st.lists(forward, min_size=MARKS_MAX + 1, max_size=400), st.data())
def test_thinned_marks_are_few_and_miss_nothing(given_steps: list[tuple[int, int]], data: st.DataObject):
    marks = marks_from(given_steps)
    few = thinned(marks)
    assert set(few.each) <= set(marks)
    assert (few.each[0], few.each[-1]) == (marks[0], marks[-1])
    assert len(few.each) <= MARKS_MAX
    since = data.draw(st.integers(marks[0][1] - 5, marks[-1][1]))
    exact, found = Marks(tuple(marks)).offset_since(since), few.offset_since(since)
    assert exact is not None
    assert found is not None
    assert found <= exact < found + few.spacing


@given(st.lists(forward, min_size=1, max_size=MARKS_MAX))
def test_as_many_as_there_is_room_for_are_all_kept(given_steps: list[tuple[int, int]]):
    marks = marks_from(given_steps)
    assert thinned(marks) == Marks(tuple(marks))


def test_nothing_was_seen_since_a_later_time():
    assert Marks(((0, 5), (10, 7))).offset_since(8) is None


def test_the_time_of_a_byte_is_that_of_the_mark_before_it():
    marks = Marks(((10, 100), (20, 300), (30, 200)))
    assert [marks.time_at(offset) for offset in (5, 10, 19, 20, 35)] == [100, 100, 100, 300, 200]


def test_a_frame_without_marks_has_the_time_of_its_beginning():
    assert marks_of(Frame(1, 0, 7, 1, 0, 0, False, 50, 60, 1, 0)) == Marks(((7, 50),))


def test_more_marks_than_there_is_room_for_are_left_out():
    marks = Marks(tuple((number * 2048, number * 10**9) for number in range(2000)))
    assert len(encode_marks(marks)) <= MARKS_MAX_BYTES
    kept = marks_of(frame_with(marks))
    assert kept.each == marks.each[: len(kept.each)]
