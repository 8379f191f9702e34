"""Files are opened without following links, and an open one outlives its name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.agent.domain.tail import Look
from services.agent.source import Source, open_beneath


def test_a_file_that_does_not_exist_yet_is_found_when_it_does(tmp_path: Path):
    source = Source(tmp_path, "a/log")
    assert source.look() is None
    assert source.read(0, 10) == b""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "log").write_bytes(b"hello")
    os.utime(tmp_path / "a" / "log", (5, 5))
    assert source.look() == Look(5, 5000)
    assert source.read(1, 100) == b"ello"
    source.close()


def test_growth_is_seen_through_the_open_file(tmp_path: Path):
    (tmp_path / "log").write_bytes(b"a")
    source = Source(tmp_path, "log")
    source.look()
    with (tmp_path / "log").open("ab") as log:
        log.write(b"bc")
    seen = source.look()
    assert seen is not None
    assert seen.size == 3
    source.close()


def test_a_replaced_file_can_be_read_to_its_end(tmp_path: Path):
    (tmp_path / "log").write_bytes(b"old")
    source = Source(tmp_path, "log")
    source.look()
    (tmp_path / "new").write_bytes(b"newer")
    (tmp_path / "new").rename(tmp_path / "log")
    seen = source.look(check_path=True)
    assert seen is not None
    assert (seen.size, seen.replaced) == (3, True)
    assert source.read(0, 10) == b"old"
    source.close()
    assert source.look(check_path=True) == source.look()
    assert source.read(0, 10) == b"newer"
    source.close()


def test_a_removed_file_is_not_replaced(tmp_path: Path):
    (tmp_path / "log").write_bytes(b"old")
    source = Source(tmp_path, "log")
    source.look()
    (tmp_path / "log").unlink()
    seen = source.look(check_path=True)
    assert seen is not None
    assert not seen.replaced
    assert source.read(0, 10) == b"old"
    source.close()


@pytest.mark.parametrize("path", ["link", "linked/file", "directory", "fifo", "gone", "file/below"])
def test_only_regular_files_beneath_the_directory_are_opened(tmp_path: Path, path: str):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "file").write_bytes(b"secret")
    (root / "file").write_bytes(b"own")
    (root / "link").symlink_to(outside / "file")
    (root / "linked").symlink_to(outside)
    (root / "directory").mkdir()
    os.mkfifo(root / "fifo")
    assert open_beneath(root, path) is None
