"""A stored file takes exactly the bytes that follow those it has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.logs.domain.positions import Admission, Position, admit, announcement
from shared.logs_wire import Chunk, FileRef, Kept, ReplicaRef

LOG = FileRef(ReplicaRef("tj-a", 1, "worker", 0))
EVENTS = FileRef(LOG.replica, "tb", "tfevents")


def test_the_next_bytes_are_taken():
    assert admit(Position(size=3), Chunk(LOG, 3, b"abc")) == Admission("append", Position(size=6), b"abc")


def test_bytes_that_are_there_already_are_a_repeat():
    assert admit(Position(size=3), Chunk(LOG, 0, b"abc")) == Admission("repeat", Position(size=3))


def test_the_new_part_of_a_chunk_is_taken():
    assert admit(Position(size=3), Chunk(LOG, 1, b"bcde")) == Admission("append", Position(size=5), b"de")


def test_bytes_beyond_the_end_are_a_gap():
    assert admit(Position(size=3), Chunk(LOG, 4, b"abc")) == Admission("gap", Position(size=3))
    assert admit(Position(size=3), Chunk(LOG, 4, end=4)) == Admission("gap", Position(size=3))


def test_the_end_mark_counts_where_all_bytes_are_there():
    assert admit(Position(size=3), Chunk(LOG, 3, end=3)) == Admission("append", Position(size=3, ended=True))
    assert admit(Position(size=3), Chunk(LOG, 2, end=2)) == Admission("repeat", Position(size=3))
    assert admit(Position(), Chunk(LOG, 0, end=0)).position.ended


def test_an_ended_file_takes_nothing_more():
    ended = Position(size=3, ended=True)
    assert admit(ended, Chunk(LOG, 3, b"x")) == Admission("repeat", ended)
    assert admit(ended, Chunk(LOG, 3, end=3)) == Admission("repeat", ended)


def test_a_new_generation_of_a_log_stands_behind_the_old_one():
    position = admit(Position(size=10), Chunk(LOG, 0, b"abc", generation=2)).position
    assert position == Position(generation=2, base=10, size=13)
    assert position.kept == 3
    assert admit(position, Chunk(LOG, 3, b"d", generation=2)).position.size == 14


def test_a_new_generation_of_an_event_file_is_a_file_of_its_own():
    assert admit(Position(size=10), Chunk(EVENTS, 0, b"abc", generation=2)).position == Position(2, 0, 3)


def test_a_new_generation_begins_at_its_first_byte():
    assert admit(Position(size=10), Chunk(LOG, 5, b"abc", generation=2)) == Admission("gap", Position(size=10))


def test_chunks_of_an_old_generation_are_dropped():
    position = Position(generation=2, base=10, size=13)
    assert admit(position, Chunk(LOG, 3, b"abc", generation=1)) == Admission("repeat", position)
    assert admit(position, Chunk(LOG, 10, b"abc", generation=1)) == Admission("repeat", position)


def test_an_ended_log_that_begins_anew_is_taken_on():
    position = admit(Position(size=10, ended=True), Chunk(LOG, 0, b"abc", generation=2)).position
    assert position == Position(generation=2, base=10, size=13)


def test_agents_hear_offsets_of_the_generation():
    position = Position(generation=2, base=10, size=13)
    assert announcement(position, Chunk(LOG, 0, generation=2), gap=False) == Kept(LOG, 3, generation=2)
    assert announcement(position, Chunk(LOG, 9, generation=2), gap=True) == Kept(LOG, 3, generation=2, gap=True)


def test_a_gap_in_a_generation_that_is_not_known_asks_for_all_of_it():
    assert announcement(Position(size=3), Chunk(LOG, 9, generation=4), gap=True) == Kept(LOG, 0, generation=4, gap=True)


chunk_lists = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(1, 3)), max_size=40)


@given(chunk_lists)
def test_whatever_comes_the_bytes_kept_are_a_beginning_of_each_generation(chunks: list[tuple[int, int, int]]):
    content = {generation: bytes(range(generation * 50, generation * 50 + 30)) for generation in (1, 2, 3)}
    position, kept = Position(), {1: b"", 2: b"", 3: b""}
    for offset, length, generation in chunks:
        data = content[generation][offset : offset + length]
        admission = admit(position, Chunk(LOG, offset, data, generation))
        if admission.effect == "append":
            kept[admission.position.generation] += admission.data
        assert admission.position.size >= position.size
        position = admission.position
        assert position.size == sum(map(len, kept.values()))
        assert position.kept == len(kept[position.generation])
    assert all(content[generation].startswith(data) for generation, data in kept.items())
