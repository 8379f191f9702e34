"""Tickets and the sessions that begin with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from services.logs.tensorboard.boards import BoardSpec
from services.logs.tensorboard.sessions import SESSION_LIFE, TICKET_LIFE, Sessions

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOARD = BoardSpec(("tj-a",))
OTHER = BoardSpec(("tj-b",))


@pytest.fixture
def sessions() -> Sessions:
    numbers = count(1)
    return Sessions(lambda: f"secret-{next(numbers)}")


def test_a_ticket_is_good_once_and_leads_to_its_token(sessions: Sessions):
    ticket = sessions.ticket(BOARD, "token", NOW)
    secret = sessions.redeem(ticket, BOARD.id, NOW)
    assert secret is not None
    assert secret != ticket
    found = sessions.find(secret, BOARD.id, NOW)
    assert found is not None
    assert (found.board, found.token) == (BOARD, "token")
    assert sessions.redeem(ticket, BOARD.id, NOW) is None


def test_a_ticket_expires(sessions: Sessions):
    ticket = sessions.ticket(BOARD, "token", NOW)
    assert sessions.redeem(ticket, BOARD.id, NOW + TICKET_LIFE) is None


def test_a_ticket_for_another_board_is_not_good_and_gone(sessions: Sessions):
    ticket = sessions.ticket(BOARD, "token", NOW)
    assert sessions.redeem(ticket, OTHER.id, NOW) is None
    assert sessions.redeem(ticket, BOARD.id, NOW) is None


def test_a_session_is_for_one_board_and_ends(sessions: Sessions):
    secret = sessions.redeem(sessions.ticket(BOARD, "token", NOW), BOARD.id, NOW)
    assert secret is not None
    assert sessions.find(secret, OTHER.id, NOW) is None
    assert sessions.find(secret, BOARD.id, NOW + SESSION_LIFE - timedelta(seconds=1)) is not None
    assert sessions.find(secret, BOARD.id, NOW + SESSION_LIFE) is None
    assert sessions.find("made up", BOARD.id, NOW) is None


def test_of_very_many_tickets_the_oldest_are_forgotten(sessions: Sessions):
    first, *_, last = [sessions.ticket(BOARD, "token", NOW) for _ in range(2100)]
    assert sessions.redeem(first, BOARD.id, NOW) is None
    assert sessions.redeem(last, BOARD.id, NOW) is not None
