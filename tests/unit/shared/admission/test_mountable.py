"""Mounts that a cluster can never make."""

from __future__ import annotations

import pytest

from shared.admission.mountable import code_violations, mount_violations
from shared.catalog import Cluster
from shared.events import ResolvedCode, ResolvedMount


def cluster(*schemes: str, prefixes: tuple[str, ...] = ()) -> Cluster:
    document = {"apiVersion": "trainmaster/v1", "kind": "Cluster", "metadata": {"name": "main"}}
    spec = {"schemes": list(schemes), "filePrefixes": list(prefixes)}
    return Cluster.model_validate({**document, "spec": spec})


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


@pytest.mark.parametrize(("root", "allowed"), [("/srv", True), ("/srv/a", True), ("/srvb", False), ("/data", False)])
def test_directories_of_nodes_lie_in_those_that_the_cluster_shows(root: str, *, allowed: bool):
    found = cluster("file", prefixes=("/srv",))
    wanted = [] if allowed else [("/spec/mounts/1/source", "directory-unavailable")]
    assert codes(f"file://{root}/x", f"file://{root}", found) == wanted


def test_a_directory_of_code_is_one_of_the_nodes_too():
    code = ResolvedCode(kind="directory", uri="file:///data/code", root="file:///data")
    assert [each.code for each in code_violations(code, cluster("pvc"))] == ["scheme-unavailable"]
    shown = cluster("file", prefixes=("/srv",))
    assert [each.code for each in code_violations(code, shown)] == ["directory-unavailable"]
    assert not list(code_violations(code, cluster("file", prefixes=("/data",))))
    assert not list(code_violations(ResolvedCode(kind="git", uri="file:///data/code"), cluster("pvc")))


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
