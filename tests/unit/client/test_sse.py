from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmaster.errors import ApiError, NotFoundError, TrainmasterError, UnexpectedAnswerError, UnreachableError
from trainmaster.problems import error_of
from trainmaster.sse import Interruption, Patience, SseEvent, decode, resuming


def events(*chunks: bytes) -> list[SseEvent]:
    return [event for event in decode(chunks) if event is not None]


class TestDecode:
    def test_fields_comments_and_blank_lines(self) -> None:
        found = events(b": hello\nretry: 1000\n\nid: 7\nevent: chunk\ndata: a\ndata: b\n\ndata:c\n\n")
        assert found == [SseEvent("chunk", "a\nb", "7"), SseEvent("message", "c", "7")]

    def test_an_event_that_the_connection_cut_off_is_not_dispatched(self) -> None:
        assert events(b"data: whole\n\ndata: half\n") == [SseEvent("message", "whole", "")]

    def test_an_end_mark_without_data_counts(self) -> None:
        assert events(b"event: end\n\n") == [SseEvent("end", "", "")]

    def test_a_byte_order_mark_is_skipped(self) -> None:
        assert events(b"\xef\xbb\xbfdata: x\n\n") == [SseEvent("message", "x", "")]

    def test_an_id_with_a_zero_is_ignored(self) -> None:
        assert events(b"id: 1\nid: 2\0\ndata: x\n\n") == [SseEvent("message", "x", "1")]

    def test_bytes_without_an_event_show_that_the_line_is_alive(self) -> None:
        assert list(decode([b": still here\n\n"])) == [None]

    @given(
        st.lists(st.tuples(st.integers(0, 10**9), st.text(max_size=20)), max_size=6),
        st.sampled_from(["\n", "\r\n", "\r"]),
        st.data(),
    )
    def test_text_torn_anywhere_with_any_line_end_is_read_whole(
        self, sent: list[tuple[int, str]], line_end: str, data: st.DataObject
    ) -> None:
        lines = [f"id: {number}{line_end}data: {json.dumps(text)}{line_end}{line_end}" for number, text in sent]
        stream = ("".join(lines) + ": end\n").encode()
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
        pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        assert [(int(event.id), json.loads(event.data)) for event in events(*pieces)] == sent


class Time:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds

    def patience(self, total_s: float = 60) -> Patience:
        return Patience(total_s, lambda: self.now_s, self.pause)


Connection = Callable[[], Iterator[bytes]]


class Connections:
    """Gives one scripted connection after the other, and notes with which id each was asked for."""

    def __init__(self, *scripts: list[bytes] | TrainmasterError) -> None:
        self.scripts = list(scripts)
        self.asked: list[str] = []

    @contextmanager
    def __call__(self, last_id: str) -> Iterator[Iterator[bytes]]:
        self.asked.append(last_id)
        script = self.scripts.pop(0)
        if isinstance(script, TrainmasterError):
            raise script
        yield iter(script)


GONE = UnreachableError("gone")


class TestResuming:
    def test_a_broken_stream_goes_on_after_the_last_event_seen(self) -> None:
        connections = Connections([b"id: 1\ndata: a\n\n"], GONE, GONE, [b"id: 2\ndata: b\n\n"])
        found = resuming(connections, patience=Time().patience())
        seen = [next(found) for _ in range(4)]
        assert [item.data for item in seen if isinstance(item, SseEvent)] == ["a", "b"]
        assert connections.asked == ["", "1", "1", "1"]

    def test_losing_the_connection_and_having_it_back_is_told_once_each(self) -> None:
        connections = Connections([b"data: a\n\n"], GONE, GONE, [b": alive\n\n", b"data: b\n\n"])
        found = resuming(connections, patience=Time().patience())
        kinds = [type(next(found)).__name__ for _ in range(4)]
        assert kinds == ["SseEvent", "Interruption", "Interruption", "SseEvent"]

    def test_it_can_begin_in_the_middle(self) -> None:
        connections = Connections([b"data: x\n\n"])
        next(resuming(connections, last_id="41", patience=Time().patience()))
        assert connections.asked == ["41"]

    def test_pauses_grow_to_a_limit_and_start_anew_after_a_sign_of_life(self) -> None:
        time = Time()
        connections = Connections(*[GONE] * 6, [b": alive\n\n"], GONE, [b"data: x\n\n"])
        found = resuming(connections, patience=time.patience())
        while not isinstance(next(found), SseEvent):
            pass
        assert time.pauses == [0.25, 0.5, 1.0, 2.0, 3.0, 3.0, 0.25, 0.5]

    def test_patience_ends_when_nothing_came_for_so_long(self) -> None:
        time = Time()
        found = resuming(Connections(*[GONE] * 99), patience=time.patience(30))
        assert isinstance(next(found), Interruption)
        with pytest.raises(UnreachableError, match="gone"):
            next(found)
        assert 30 < time.now_s < 36

    def test_what_waiting_does_not_heal_is_raised_at_once(self) -> None:
        refused = error_of({"status": 404, "detail": "no job"})
        with pytest.raises(NotFoundError, match="no job"):
            next(resuming(Connections(refused), patience=Time().patience()))

    def test_a_problem_in_the_stream_is_raised(self) -> None:
        told = b'event: problem\ndata: {"status": 500, "detail": "the service failed", "request_id": "r"}\n\n'
        with pytest.raises(ApiError, match="the service failed"):
            next(resuming(Connections([told]), patience=Time().patience()))

    def test_a_problem_that_may_pass_is_waited_for(self) -> None:
        told = b'event: problem\ndata: {"status": 503, "detail": "not now"}\n\n'
        found = resuming(Connections([b"id: 3\ndata: a\n\n" + told], [b"data: b\n\n"]), patience=Time().patience())
        assert [item.data for item in (next(found) for _ in range(4)) if isinstance(item, SseEvent)] == ["a", "b"]

    def test_a_problem_that_is_none_is_raised_as_what_it_is(self) -> None:
        with pytest.raises(UnexpectedAnswerError, match="ended with"):
            next(resuming(Connections([b"event: problem\ndata: oops\n\n"]), patience=Time().patience()))
