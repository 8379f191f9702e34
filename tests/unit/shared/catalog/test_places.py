"""What pools say of themselves."""

from __future__ import annotations

import pytest

from tests.support.catalog import pool


@pytest.mark.parametrize(
    ("spec", "chooser"),
    [
        ({}, "Trainmaster"),
        ({"binding": "kubernetes"}, "Kubernetes"),
        ({"gangScheduler": "volcano"}, "Volcano"),
        ({"binding": "kubernetes", "gangScheduler": "volcano"}, "Volcano"),
    ],
)
def test_a_pool_says_who_chooses_nodes(spec: dict[str, str], chooser: str) -> None:
    assert pool("public", **spec).spec.chooser == chooser
