"""Which directories may get a name, and by whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.admission.locations import Locations
from shared.catalog import Asker
from tests.support.catalog import catalog_of, storage

ANN = Asker("ann")
ROOT = Asker("root", admin=True)
HOME = "/home/me/.trainmaster"
CATALOG = catalog_of(
    storage("open", uri="file:///data/open", public=True),
    storage("ann", uri="file:///data/ann", users=["ann"]),
    storage("closed", uri="file:///data/closed"),
)


def refused(path: str, asker: Asker = ANN, prefixes: tuple[str, ...] = ()) -> bool:
    return Locations(prefixes, HOME).data_violation(path, "/spec/uri", asker, CATALOG) is not None


@pytest.mark.parametrize("path", ["/data/open", "/data/open/x/y", "/data/ann/x"])
def test_inside_a_storage_that_one_may_use(path: str) -> None:
    assert not refused(path)


@pytest.mark.parametrize("path", ["/", "/data", "/data/closed", "/data/closed/x", "/data/opening", "/etc"])
def test_not_elsewhere_without_prefixes(path: str) -> None:
    assert refused(path)
    assert not refused(path, ROOT) or path == "/"


def test_a_prefix_opens_what_no_closed_storage_touches() -> None:
    assert not refused("/data/mine", prefixes=("/data",))
    assert refused("/data/closed/x", prefixes=("/data",))
    assert refused("/data", prefixes=("/data",))
    assert refused("/database", prefixes=("/data",))


@pytest.mark.parametrize("path", ["/", "/home", "/home/me", HOME, HOME + "/nats"])
def test_nobody_shows_the_platforms_own_state(path: str) -> None:
    assert refused(path, ROOT)
    assert Locations((), HOME).storage_violation(path, "/spec/uri") is not None


@pytest.mark.parametrize("path", ["/proc", "/proc/self/root", "/sys/fs/cgroup"])
def test_nobody_shows_the_processes_of_others(path: str) -> None:
    assert refused(path, ROOT)
    assert Locations((), HOME).storage_violation(path, "/spec/uri") is not None


def test_storages_are_bounded_by_the_prefixes() -> None:
    assert Locations((), HOME).storage_violation("/srv", "/spec/uri") is None
    assert Locations(("/data", "/srv"), HOME).storage_violation("/srv/x", "/spec/uri") is None
    assert Locations(("/data",), HOME).storage_violation("/srv", "/spec/uri") is not None


@pytest.mark.parametrize(
    ("path", "asker", "prefixes", "root"),
    [
        ("/data/ann/sets/mnist", ANN, (), "/data/ann"),
        ("/data/ann", ANN, (), "/data/ann"),
        ("/data/closed/x", ROOT, (), "/data/closed"),
        ("/data/mine/x", ANN, ("/data",), "/data"),
        ("/data/ann/x", ANN, ("/data",), "/data/ann"),
        ("/srv/x", ROOT, (), "/srv/x"),
    ],
)
def test_links_are_held_in_by_the_innermost_directory_that_was_opened(
    path: str, asker: Asker, prefixes: tuple[str, ...], root: str
) -> None:
    assert Locations(prefixes, HOME).root_of(path, asker, CATALOG) == root


S3_CATALOG = catalog_of(storage("open", uri="s3://team/open", public=True), storage("closed", uri="s3://team/closed"))


@pytest.mark.parametrize(
    ("uri", "asker", "code"),
    [
        ("s3://team/open", ANN, None),
        ("s3://team/open/x", ANN, None),
        ("s3://team/opening", ANN, "location-not-allowed"),
        ("s3://team/closed/x", ANN, "location-not-allowed"),
        ("s3://team", ANN, "location-not-allowed"),
        ("s3://other", ANN, "location-not-allowed"),
        ("s3://other", ROOT, None),
    ],
)
def test_buckets_are_named_by_the_same_rule(uri: str, asker: Asker, code: str | None) -> None:
    violation = Locations(("/",), HOME, has_s3=True).data_violation(uri, "/spec/uri", asker, S3_CATALOG)
    assert (violation.code if violation else None) == code


def test_without_an_object_store_nothing_is_at_s3() -> None:
    without = Locations((), HOME)
    for violation in (
        without.storage_violation("s3://team/open", "/spec/uri"),
        without.data_violation("s3://team/open", "/spec/uri", ROOT, S3_CATALOG),
    ):
        assert violation is not None
        assert violation.code == "s3-not-configured"
        assert "TRAINMASTER_S3_KEY_ID" in violation.message
    assert Locations(("/data",), HOME, has_s3=True).storage_violation("s3://team/open", "/spec/uri") is None


PATHS = st.lists(st.sampled_from(["data", "closed", "open", "ann", "x"]), max_size=4).map(lambda p: "/" + "/".join(p))


@given(PATHS, st.sampled_from([(), ("/data",), ("/",)]))
def test_no_path_shows_what_lies_in_a_closed_storage(path: str, prefixes: tuple[str, ...]) -> None:
    within = path == "/data/closed" or path.startswith("/data/closed/") or path in ("/", "/data")
    if within:
        assert refused(path, prefixes=prefixes)


@pytest.mark.parametrize("uri", ["pvc://team", "nfs://nas/data"])
def test_admins_give_names_to_claims_and_servers_and_others_to_what_is_in_them(uri: str) -> None:
    closed = Locations(("/data",), HOME)
    assert closed.storage_violation(uri, "/spec/uri") is None
    catalog = catalog_of(storage("team", uri=uri, users=["ann"]))
    assert closed.data_violation(f"{uri}/mnist", "/spec/uri", ANN, catalog) is None
    assert closed.data_violation(f"{uri}/mnist", "/spec/uri", Asker("bob"), catalog) is not None
    assert closed.data_violation(f"{uri}-b/mnist", "/spec/uri", ANN, catalog) is not None
    assert closed.root_of(f"{uri}/mnist", ANN, catalog) == uri
