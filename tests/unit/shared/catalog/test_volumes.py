"""URIs of data that a cluster mounts."""

from __future__ import annotations

import pytest

from shared.catalog.fields import place_of, uri_of
from shared.catalog.volumes import check_volume_uri, claim_and_path, scheme_of, server_and_path


@pytest.mark.parametrize(
    ("uri", "claim", "path"), [("pvc://team", "team", ""), ("pvc://team.a-1/x/y", "team.a-1", "x/y")]
)
def test_a_claim_and_a_path_in_it(uri: str, claim: str, path: str):
    assert claim_and_path(check_volume_uri(uri)) == (claim, path)


@pytest.mark.parametrize(
    ("uri", "server", "path"),
    [("nfs://nas/data", "nas", "/data"), ("nfs://10.0.0.1/", "10.0.0.1", "/"), ("nfs://[fd00::1]/x", "fd00::1", "/x")],
)
def test_a_server_and_a_path_there(uri: str, server: str, path: str):
    assert server_and_path(check_volume_uri(uri)) == (server, path)


@pytest.mark.parametrize("uri", ["file:///a", "s3://bucket/a", "pvc://claim/a", "nfs://nas/a", "file:///a://b"])
def test_a_place_is_the_same_place_as_a_uri(uri: str):
    assert uri_of(place_of(uri)) == uri


def test_what_stands_first_is_the_scheme():
    assert scheme_of("pvc://team") == "pvc"
