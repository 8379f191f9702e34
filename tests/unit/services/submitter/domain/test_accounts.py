"""Rules about users that keep the platform administrable."""

from __future__ import annotations

from typing import Any

import pytest

from services.submitter.domain import accounts
from shared.auth.principal import Principal
from shared.catalog import Group, User
from shared.errors import ConflictError, ForbiddenError, InvalidInputError
from shared.ids import UserId
from tests.support.catalog import catalog_of, dataset, made

ANN = Principal(UserId(User.id_of("ann")), "ann")


def user(name: str, **spec: Any) -> User:
    return made(User, name, spec)


def test_everybody_reads_their_own_user_and_nothing_else() -> None:
    accounts.check_may_read(User, "ann", ANN)
    for kind, name in ((User, "bob"), (Group, "ann")):
        with pytest.raises(ForbiddenError):
            accounts.check_may_read(kind, name, ANN)


def test_a_new_user_needs_a_password_and_a_known_one_does_not() -> None:
    catalog = catalog_of(user("root", admin=True))
    with pytest.raises(InvalidInputError):
        accounts.check_user(user("ann"), None, catalog)
    accounts.check_user(user("ann", password="long enough it is"), None, catalog)
    accounts.check_user(user("ann"), user("ann"), catalog)


@pytest.mark.parametrize("spec", [{"admin": False}, {"admin": True, "disabled": True}])
def test_the_last_admin_keeps_the_rights(spec: dict[str, bool]) -> None:
    last = catalog_of(user("root", admin=True), user("off", admin=True, disabled=True))
    with pytest.raises(ConflictError):
        accounts.check_user(user("root", **spec), user("root", admin=True), last)
    two = catalog_of(user("root", admin=True), user("second", admin=True))
    accounts.check_user(user("root", **spec), user("root", admin=True), two)


def test_who_owns_things_or_runs_jobs_is_not_deleted() -> None:
    catalog = catalog_of(user("root", admin=True), user("ann"), dataset("d", owner="ann"))
    with pytest.raises(ConflictError, match="dataset 'd'"):
        accounts.check_deletable(user("ann"), catalog, 0)
    with pytest.raises(ConflictError, match="2 live jobs"):
        accounts.check_deletable(user("bob"), catalog, 2)
    accounts.check_deletable(user("bob"), catalog, 0)


def test_tokens_end_with_password_and_rights_and_with_nothing_else() -> None:
    before = user("ann", email="a@example.org")
    assert not accounts.rights_changed(user("ann", email="b@example.org"), before)
    assert not accounts.rights_changed(user("ann", admin=True), None)
    for spec in ({"admin": True}, {"disabled": True}, {"password": "long enough it is"}):
        assert accounts.rights_changed(user("ann", **spec), before)


def test_the_catalog_never_gets_a_password() -> None:
    kept = accounts.without_password(user("ann", password="long enough it is"))
    assert "password" not in kept.document()["spec"]
