"""Who sees, writes and makes which asset."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.submitter.domain import assets
from shared.catalog import Asker, CatalogDocument, CodeSet, Dataset, Entry, Image, Storage
from shared.errors import ConflictError, ForbiddenError
from tests.support.catalog import dataset, image, made, project, storage
from tests.support.jobs import START

ANN, BOB, ROOT = Asker("ann"), Asker("bob"), Asker("root", admin=True)


@pytest.mark.parametrize(
    ("document", "bob_sees_it"),
    [
        (dataset("d"), False),
        (dataset("d", users=["bob"]), True),
        (storage("s"), False),
        (storage("s", public=True), True),
        (image("i", kind="platform"), True),
        (image("i", kind="custom"), False),
        (made(CodeSet, "c", {"inline": {"a": "b"}}, "ann"), False),
        (project("p"), False),
        (project("p", users=["bob"]), True),
    ],
)
def test_what_is_not_shared_is_not_listed(document: CatalogDocument, bob_sees_it: bool) -> None:
    assert assets.is_listed(document, BOB) is bob_sees_it
    assert assets.is_listed(document, ROOT)


def test_owner_and_admins_write_and_others_learn_no_more_than_they_may_see() -> None:
    private, shared = Entry(dataset("d"), 1), Entry(dataset("d", users=["bob"]), 1)
    for asker in (ANN, ROOT):
        assets.check_may_write(Dataset, private, "d", asker)
    assets.check_may_write(Dataset, None, "d", BOB)
    with pytest.raises(ForbiddenError):
        assets.check_may_write(Dataset, shared, "d", BOB)
    with pytest.raises(ConflictError) as caught:
        assets.check_may_write(Dataset, private, "d", BOB)
    assert "ann" not in caught.value.message


def test_storages_and_platform_images_are_made_by_admins() -> None:
    with pytest.raises(ForbiddenError):
        assets.check_may_write(Storage, None, "s", ANN)
    assets.check_may_write(Storage, None, "s", ROOT)
    with pytest.raises(ForbiddenError):
        assets.check_may_make(image("i", kind="platform"), ANN)
    assets.check_may_make(image("i", kind="platform"), ROOT)
    assets.check_may_make(image("i", kind="custom"), ANN)


def test_a_document_keeps_its_first_owner_and_time() -> None:
    first = assets.stamped(made(Image, "i", {"address": "x:1"}, "somebody-else"), None, START, owner="ann")
    assert (first.owner, first.metadata.created_at, first.metadata.id) == ("ann", START, first.id)
    later = START + timedelta(hours=1)
    second = assets.stamped(made(Image, "i", {"address": "x:2"}), Entry(first, 1), later, owner="root")
    assert (second.owner, second.metadata.created_at, second.metadata.updated_at) == ("ann", START, later)
