"""The catalog in memory: look-ups, revisions, and documents that cannot be read."""

from __future__ import annotations

import json

from shared.catalog import Catalog, Dataset, Group
from tests.support.catalog import catalog_of, dataset, group


def test_documents_are_found_by_kind_and_name_and_listed_by_name() -> None:
    catalog = catalog_of(dataset("b"), dataset("a"), group("a"))
    assert catalog.get(Dataset, "a") == dataset("a")
    assert [found.name for found in catalog.all(Dataset)] == ["a", "b"]
    assert [found.name for found in catalog.all(Group)] == ["a"]
    assert catalog.get(Dataset, "c") is None


def test_a_deleted_document_is_gone_and_its_revision_stays_known() -> None:
    catalog = catalog_of(dataset("a"))
    catalog.apply(Dataset.key_of("a"), None, 9)
    assert catalog.get(Dataset, "a") is None
    assert catalog.revision(Dataset, "a") == 9


def test_an_older_message_changes_nothing() -> None:
    catalog = catalog_of(dataset("a"))
    catalog.apply(Dataset.key_of("a"), None, 9)
    catalog.apply(Dataset.key_of("a"), json.dumps(dataset("a").document()).encode(), 8)
    assert catalog.get(Dataset, "a") is None


def test_what_cannot_be_read_is_left_out_and_unknown_kinds_and_keys_are_ignored() -> None:
    catalog = Catalog()
    catalog.apply(Dataset.key_of("a"), b"nonsense", 1)
    catalog.apply("rule.r-x", b"{}", 2)
    newer = dataset("b").document() | {"novelty": 1}
    newer["spec"]["novelty"] = {"deep": True}
    catalog.apply(Dataset.key_of("b"), json.dumps(newer).encode(), 3)
    assert [found.name for found in catalog.all(Dataset)] == ["b"]
    assert catalog.revision(Dataset, "a") == 1
