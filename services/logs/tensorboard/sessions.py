"""Tickets and sessions: how a browser, which sends no bearer token, gets to a board and to nothing else.

A ticket is good once, for a minute, for one board. It is exchanged for a cookie that the browser sends to that board's
path alone. Behind the cookie stands the bearer token with which the board was opened: it is checked at each request, so
that a session ends when the token expires or is revoked, and nothing of it ever leaves this process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from services.logs.tensorboard.boards import BoardSpec

TICKET_LIFE: Final = timedelta(seconds=60)
SESSION_LIFE: Final = timedelta(hours=12)
_ENTRIES_MAX: Final = 2000


@dataclass(frozen=True, slots=True)
class Session:
    """Which board, and whose token."""

    board: BoardSpec
    token: str
    until: datetime


class Sessions:
    """Tickets that were given out, and sessions that were begun with them."""

    def __init__(self, new_secret: Callable[[], str]) -> None:
        self._new_secret = new_secret
        self._tickets: OrderedDict[str, Session] = OrderedDict()
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def ticket(self, board: BoardSpec, token: str, now: datetime) -> str:
        """A ticket for the board."""
        return self._add(self._tickets, Session(board, token, now + TICKET_LIFE))

    def redeem(self, ticket: str, board_id: str, now: datetime) -> str | None:
        """The secret of a new session; None where the ticket is not good, or not for this board."""
        found = self._tickets.pop(ticket, None)
        if found is None or found.until <= now or found.board.id != board_id:
            return None
        return self._add(self._sessions, Session(found.board, found.token, now + SESSION_LIFE))

    def find(self, secret: str, board_id: str, now: datetime) -> Session | None:
        """The session of a cookie; None where there is none, or for another board."""
        found = self._sessions.get(secret)
        if found is None or found.board.id != board_id:
            return None
        if found.until <= now:
            del self._sessions[secret]
            return None
        return found

    def _add(self, entries: OrderedDict[str, Session], session: Session) -> str:
        secret = self._new_secret()
        entries[secret] = session
        while len(entries) > _ENTRIES_MAX:
            entries.popitem(last=False)
        return secret
