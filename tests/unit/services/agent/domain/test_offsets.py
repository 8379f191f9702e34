"""The window of the agent: how far a file is sent and kept, and when it is sent again."""

from __future__ import annotations

from itertools import pairwise

import pytest

from services.agent.domain.offsets import (
    GAP_PAUSE_S,
    REFUSED_PAUSE_MAX_S,
    REFUSED_PAUSE_S,
    SILENCE_MAX_S,
    SILENCE_S,
    WINDOW_BYTES,
    Offsets,
    Piece,
)
from shared.logs_wire import CHUNK_MAX_BYTES

LARGE = 10 * WINDOW_BYTES


def send_all(offsets: Offsets, size: int, now: float = 0.0, *, complete: bool = False) -> list[Piece]:
    sent = []
    while (piece := offsets.next_piece(size, complete=complete, now=now)) is not None:
        offsets.published(piece, now)
        sent.append(piece)
    return sent


def test_a_file_goes_in_pieces_of_at_most_a_chunk():
    assert send_all(Offsets(), CHUNK_MAX_BYTES + 5) == [Piece(0, CHUNK_MAX_BYTES), Piece(CHUNK_MAX_BYTES, 5)]


def test_what_waits_for_an_announcement_is_at_most_a_window():
    offsets = Offsets()
    send_all(offsets, LARGE)
    assert offsets.sent == offsets.outstanding_bytes == WINDOW_BYTES


def test_an_announcement_opens_the_window():
    offsets = Offsets()
    send_all(offsets, LARGE)
    offsets.announced(CHUNK_MAX_BYTES, ended=False, gap=False, now=1)
    assert send_all(offsets, LARGE, 1) == [Piece(WINDOW_BYTES, CHUNK_MAX_BYTES)]


def test_the_end_mark_comes_once_and_after_all_bytes_of_a_complete_file():
    offsets = Offsets()
    assert send_all(offsets, 10) == [Piece(0, 10)]
    assert send_all(offsets, 10, complete=True) == [Piece(10, 0)]
    assert not offsets.ended
    offsets.announced(10, ended=True, gap=False, now=1)
    assert offsets.ended
    assert not offsets.waiting


def test_an_empty_file_has_an_end_mark():
    assert send_all(Offsets(), 0, complete=True) == [Piece(0, 0)]


def test_a_restarted_agent_goes_on_where_logs_is():
    offsets = Offsets(kept=100)
    send_all(offsets, 200)
    offsets.announced(180, ended=False, gap=False, now=1)
    assert (offsets.kept, offsets.sent) == (180, 200)
    offsets.announced(250, ended=False, gap=False, now=1)
    assert (offsets.kept, offsets.sent) == (250, 250)


def test_late_announcements_in_any_order_never_move_kept_back():
    offsets = Offsets()
    send_all(offsets, 100)
    for kept in (80, 20, 50):
        offsets.announced(kept, ended=False, gap=False, now=1)
    assert offsets.kept == 80


def test_a_lost_connection_sends_again_from_kept():
    offsets = Offsets()
    send_all(offsets, 100, complete=True)
    offsets.announced(40, ended=False, gap=False, now=1)
    offsets.disconnected()
    assert send_all(offsets, 100, 2, complete=True) == [Piece(40, 60), Piece(100, 0)]


def test_a_gap_sends_again_from_the_announced_offset_once_in_a_while():
    offsets = Offsets()
    send_all(offsets, 1000)
    offsets.announced(300, ended=False, gap=True, now=1)
    assert send_all(offsets, 1000, 1) == [Piece(300, 700)]
    offsets.announced(300, ended=False, gap=True, now=1 + GAP_PAUSE_S / 2)
    assert send_all(offsets, 1000, 1) == []
    offsets.announced(300, ended=False, gap=True, now=1 + GAP_PAUSE_S)
    assert send_all(offsets, 1000, 2) == [Piece(300, 700)]


def test_logs_that_lost_what_it_had_gets_it_again():
    offsets = Offsets(kept=500)
    send_all(offsets, 1000)
    offsets.announced(0, ended=False, gap=True, now=1)
    assert send_all(offsets, 1000, 1) == [Piece(0, 1000)]


def test_a_refused_piece_is_sent_again_after_a_pause_that_grows():
    offsets = Offsets()
    send_all(offsets, 100)
    offsets.refused(0, now=0)
    assert offsets.next_piece(100, complete=False, now=REFUSED_PAUSE_S * 0.9) is None
    assert offsets.next_piece(100, complete=False, now=REFUSED_PAUSE_S) == Piece(0, 100)
    now = 0.0
    for _ in range(10):
        now += 100
        offsets.refused(0, now)
    assert offsets.next_piece(100, complete=False, now=now + REFUSED_PAUSE_MAX_S - 0.1) is None
    assert offsets.next_piece(100, complete=False, now=now + REFUSED_PAUSE_MAX_S) == Piece(0, 100)


def test_many_refusals_at_once_are_one():
    offsets = Offsets()
    for piece in send_all(offsets, LARGE):
        offsets.refused(piece.offset, now=0)
    assert offsets.next_piece(LARGE, complete=False, now=REFUSED_PAUSE_S) == Piece(0, CHUNK_MAX_BYTES)


def test_the_window_is_halved_by_a_refusal_and_doubled_by_progress():
    offsets = Offsets()
    send_all(offsets, LARGE)
    offsets.refused(0, now=0)
    send_all(offsets, LARGE, now=REFUSED_PAUSE_S)
    assert offsets.outstanding_bytes == WINDOW_BYTES // 2
    offsets.announced(CHUNK_MAX_BYTES, ended=False, gap=False, now=1)
    send_all(offsets, LARGE, now=1)
    assert offsets.outstanding_bytes == WINDOW_BYTES


def test_progress_ends_the_pause_after_a_refusal():
    offsets = Offsets()
    send_all(offsets, 2 * CHUNK_MAX_BYTES)
    offsets.refused(CHUNK_MAX_BYTES, now=0)
    assert send_all(offsets, 2 * CHUNK_MAX_BYTES, now=0.01) == []
    offsets.announced(CHUNK_MAX_BYTES, ended=False, gap=False, now=0.02)
    assert send_all(offsets, 2 * CHUNK_MAX_BYTES, now=0.02) == [Piece(CHUNK_MAX_BYTES, CHUNK_MAX_BYTES)]


def test_a_refusal_of_what_is_kept_by_now_moves_nothing_back():
    offsets = Offsets()
    send_all(offsets, 100)
    offsets.announced(100, ended=False, gap=False, now=1)
    offsets.refused(50, now=1)
    assert (offsets.kept, offsets.sent) == (100, 100)


def test_silence_asks_again_with_one_chunk_and_ever_less_often():
    offsets = Offsets()
    send_all(offsets, LARGE)
    questions, now = [], 0.0
    while now < 600:
        now += 1
        offsets.check_silence(now)
        pieces = send_all(offsets, LARGE, now)
        assert all(piece == Piece(0, CHUNK_MAX_BYTES) for piece in pieces)
        questions += [now] * len(pieces)
    pauses = [after - before for before, after in pairwise(questions)]
    assert questions[0] == SILENCE_S
    assert pauses[0] > SILENCE_S
    assert max(pauses) == pauses[-1] == SILENCE_MAX_S


def test_the_answer_to_a_question_opens_the_window_again():
    offsets = Offsets()
    send_all(offsets, LARGE)
    offsets.check_silence(SILENCE_S)
    send_all(offsets, LARGE, SILENCE_S)
    offsets.announced(WINDOW_BYTES, ended=False, gap=False, now=SILENCE_S + 1)
    assert len(send_all(offsets, LARGE, SILENCE_S + 1)) == WINDOW_BYTES // CHUNK_MAX_BYTES


@pytest.mark.parametrize("complete", [False, True])
def test_nothing_is_asked_when_everything_is_kept(complete: bool):
    offsets = Offsets()
    send_all(offsets, 100, complete=complete)
    offsets.announced(100, ended=complete, gap=False, now=0)
    offsets.check_silence(1000)
    assert not offsets.questioning
    assert send_all(offsets, 100, 1000, complete=complete) == []
