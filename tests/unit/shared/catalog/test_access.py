"""Who may use and change what."""

from __future__ import annotations

import pytest

from shared.auth.principal import Principal
from shared.catalog import Asker, asker_of, may_change, may_use, may_use_pool
from shared.catalog.access import may_use_project, projects_of
from shared.catalog.base import Access
from shared.ids import UserId
from tests.support.catalog import catalog_of, group, pool, project

ANN = Asker("ann")
BOB = Asker("bob", groups=frozenset({"vision"}))
ADMIN = Asker("root", admin=True)


@pytest.mark.parametrize(
    ("access", "asker", "allowed"),
    [
        (Access(), ANN, True),
        (Access(), BOB, False),
        (Access(), ADMIN, True),
        (Access(public=True), BOB, True),
        (Access(users=("bob",)), BOB, True),
        (Access(groups=("vision",)), BOB, True),
        (Access(groups=("speech",)), BOB, False),
    ],
)
def test_an_asset_of_ann_is_for_her_those_she_names_and_admins(access: Access, asker: Asker, allowed: bool) -> None:
    assert may_use("ann", access, asker) is allowed


def test_only_owner_and_admins_change() -> None:
    assert may_change("ann", ANN)
    assert may_change("ann", ADMIN)
    assert not may_change("ann", BOB)
    assert not may_change(None, BOB)


def test_pools_are_for_members_unless_public() -> None:
    dedicated = pool("team-a", type="dedicated", members={"groups": ["vision"]})
    assert may_use_pool(dedicated, BOB)
    assert may_use_pool(dedicated, ADMIN)
    assert not may_use_pool(dedicated, ANN)
    assert may_use_pool(pool("main"), ANN)


def test_projects_show_their_jobs_to_owner_and_members() -> None:
    catalog = catalog_of(project("p", owner="ann", users=["bob"]), project("q", owner="ann"), group("vision", "bob"))
    assert projects_of(BOB, catalog) == ("p",)
    assert projects_of(ANN, catalog_of(project("default", owner="ann"))) == ()
    assert projects_of(ANN, catalog) == ("p", "q")
    assert not may_use_project(project("q", owner="ann"), BOB)


def test_an_asker_has_the_groups_of_the_catalog() -> None:
    catalog = catalog_of(group("vision", "bob"), group("speech", "ann"))
    assert asker_of(Principal(UserId("u-bob"), "bob"), catalog) == BOB
