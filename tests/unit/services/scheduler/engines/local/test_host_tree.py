from __future__ import annotations

from pathlib import Path

import pytest

from services.scheduler.engines.local.host_tree import HostTree, Kind, ancestors, is_within


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    (tmp_path / "run/lock").mkdir(parents=True)
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "var/here").symlink_to("../var")
    (tmp_path / "var/file").touch()
    (tmp_path / "loop").symlink_to("loop")
    return HostTree(str(tmp_path))


def test_kinds_do_not_follow_links(host: HostTree):
    kinds = [host.kind(path) for path in ("/var", "/var/run", "/var/file", "/absent", "/loop")]

    assert kinds == [Kind.DIRECTORY, Kind.LINK, Kind.OTHER, Kind.MISSING, Kind.LINK]


def test_links_are_followed_inside_of_the_tree(host: HostTree):
    assert host.resolve("/var/run/lock") == "/run/lock"
    assert host.resolve("/var/here/here/run/x/y") == "/run/x/y"
    assert host.resolve("/absent/../var") == "/var"
    assert host.resolve_parent("/var/here/run") == "/var/run"


def test_a_loop_of_links_ends(host: HostTree):
    assert host.resolve("/loop").startswith("/loop")


def test_names_of_what_cannot_be_listed_are_none(host: HostTree):
    assert host.names("/var") == ["file", "here", "run"]
    assert host.names("/absent") == []


def test_within_is_by_whole_names():
    assert is_within("/mnt/a", "/mnt/a")
    assert is_within("/mnt/a/b", "/mnt/a/")
    assert is_within("/mnt", "/")
    assert not is_within("/mnt/ab", "/mnt/a")


def test_ancestors_go_from_the_top_down():
    assert ancestors("/a/b/c") == ["/a", "/a/b"]
    assert ancestors("/a") == []
