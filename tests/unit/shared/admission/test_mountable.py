"""Mounts that a cluster can never make."""

from __future__ import annotations

import pytest

from shared.admission.mountable import mount_violations
from shared.catalog import Cluster
from shared.events import ResolvedMount


def cluster(*schemes: str) -> Cluster:
    document = {"apiVersion": "trainmaster/v1", "kind": "Cluster", "metadata": {"name": "main"}}
    return Cluster.model_validate({**document, "spec": {"schemes": list(schemes)}})


def codes(uri: str, root: str | None, found: Cluster | None) -> list[tuple[str, str]]:
    mount = ResolvedMount(mount_path="/mnt/a", type="storage", source="team", uri=uri, root=root)
    return [(violation.pointer, violation.code) for violation in mount_violations(1, mount, found)]


@pytest.mark.parametrize("found", [None, cluster(), cluster("file", "pvc")])
def test_what_the_cluster_mounts_or_says_nothing_about_is_let_in(found: Cluster | None):
    assert codes("pvc://team/a", "pvc://team", found) == []


def test_a_kind_of_data_that_the_cluster_has_no_volumes_for_is_told_with_those_that_it_has():
    assert codes("nfs://nas/a", "nfs://nas/a", cluster("file", "pvc")) == [
        ("/spec/mounts/1/source", "scheme-unavailable")
    ]
    mount = ResolvedMount(mount_path="/mnt/a", type="storage", source="team", uri="nfs://nas/a")
    (violation,) = mount_violations(0, mount, cluster("file", "pvc"))
    assert "it mounts file://, pvc://" in violation.message


@pytest.mark.parametrize(
    ("uri", "root", "confined"),
    [
        ("pvc://team/a/b", "pvc://team/a", False),
        ("pvc://team/a", "pvc://team/a", True),
        ("pvc://team/a", None, True),
        ("nfs://nas/a/b", "nfs://nas/a", True),
        ("file:///srv/a/b", "file:///srv/a", True),
    ],
)
def test_a_part_of_a_part_of_a_claim_is_not_confined(uri: str, root: str | None, *, confined: bool):
    found = codes(uri, root, None)
    assert found == ([] if confined else [("/spec/mounts/1/subPath", "part-not-confined")])
