from __future__ import annotations

import pytest

from shared.auth.principal import Principal, can_see
from shared.ids import UserId

ADA = Principal(UserId("u-ada"), "ada")


@pytest.mark.parametrize(
    ("principal", "owner", "members", "sees"),
    [
        (ADA, "u-ada", (), True),
        (ADA, "u-bob", (), False),
        (ADA, "u-bob", ("u-eve", "u-ada"), True),
        (ADA, "u-bob", ("u-eve",), False),
        (ADA, "ada", ("ada",), False),
        (Principal(UserId("u-root"), "root", admin=True), "u-bob", (), True),
    ],
)
def test_users_see_their_own_members_their_projects_admins_all(
    principal: Principal, owner: str, members: tuple[str, ...], sees: bool
) -> None:
    assert can_see(principal, owner, members) is sees
