"""Hints that something happened in a directory."""

from __future__ import annotations

import select
from pathlib import Path

import pytest

from services.agent.inotify import Inotify


@pytest.fixture
def inotify():
    inotify = Inotify()
    if not inotify.available:
        pytest.skip("no inotify here")
    yield inotify
    inotify.close()


def is_readable(inotify: Inotify) -> bool:
    return bool(select.select([inotify.fd], [], [], 0)[0])


def test_a_write_is_a_hint_that_nothing_came_or_went(tmp_path: Path, inotify: Inotify):
    (tmp_path / "log").touch()
    inotify.watch({tmp_path})
    assert not is_readable(inotify)
    (tmp_path / "log").write_bytes(b"x")
    assert is_readable(inotify)
    assert inotify.drain() is False
    assert not is_readable(inotify)


def test_new_renamed_and_deleted_names_are_told_from_writes(tmp_path: Path, inotify: Inotify):
    inotify.watch({tmp_path})
    (tmp_path / "part").touch()
    assert inotify.drain() is True
    (tmp_path / "part").rename(tmp_path / "ship.json")
    assert inotify.drain() is True
    (tmp_path / "ship.json").unlink()
    assert inotify.drain() is True
    assert inotify.drain() is False


def test_directories_that_are_not_wanted_any_more_are_quiet(tmp_path: Path, inotify: Inotify):
    other = tmp_path / "other"
    other.mkdir()
    inotify.watch({tmp_path, other})
    inotify.watch({other})
    inotify.drain()
    (tmp_path / "x").touch()
    assert not is_readable(inotify)
    (other / "x").touch()
    assert is_readable(inotify)


def test_a_directory_that_is_gone_is_no_trouble(tmp_path: Path, inotify: Inotify):
    gone = tmp_path / "gone"
    inotify.watch({tmp_path, gone})
    gone.mkdir()
    inotify.watch({tmp_path, gone})
    gone.rmdir()
    inotify.watch({tmp_path})
    assert inotify.available


def test_without_inotify_the_hints_just_do_not_come(tmp_path: Path):
    inotify = Inotify()
    inotify.close()
    inotify.close()
    assert not inotify.available
    inotify.watch({tmp_path})
