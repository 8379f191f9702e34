from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from nats.js import JetStreamContext

from shared.auth.principal import Principal
from shared.auth.revocations import KvRevocations, RevocationTable
from shared.auth.tokens import Claims
from shared.clock import ManualClock, rfc3339
from shared.errors import UnavailableError
from shared.ids import UserId

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def claims(number: str = "t1", user: str = "u-ada", issued_at: datetime = NOW) -> Claims:
    return Claims(Principal(UserId(user), "ada"), number, issued_at, issued_at + timedelta(hours=1))


def test_one_revoked_token_leaves_the_users_others_alone() -> None:
    table = RevocationTable()
    table.apply("token.t1", rfc3339(NOW).encode())
    assert table.revoked(claims("t1"))
    assert not table.revoked(claims("t2"))


def test_revoking_a_user_takes_back_the_tokens_issued_until_then() -> None:
    table = RevocationTable()
    table.apply("user.u-ada", rfc3339(NOW).encode())
    assert table.revoked(claims(issued_at=NOW - timedelta(seconds=1)))
    assert table.revoked(claims(issued_at=NOW))
    assert not table.revoked(claims(issued_at=NOW + timedelta(milliseconds=1)))
    assert not table.revoked(claims(user="u-bob"))


def test_an_entry_that_is_removed_counts_no_more() -> None:
    table = RevocationTable()
    table.apply("token.t1", rfc3339(NOW).encode())
    table.apply("token.t1", None)
    table.apply("token.never-there", None)
    assert not table.revoked(claims("t1"))


def test_an_entry_that_cannot_be_read_is_passed_over() -> None:
    table = RevocationTable()
    for value in (b"", b"soon", b"\xff"):
        table.apply("user.u-ada", value)
    assert not table.revoked(claims())


async def test_nobody_is_let_in_before_the_first_snapshot() -> None:
    revocations = KvRevocations(JetStreamContext(None), ManualClock())  # type: ignore[arg-type]
    with pytest.raises(UnavailableError, match="not loaded"):
        revocations.revoked(claims())
    with pytest.raises(UnavailableError):
        await revocations.check()
