from __future__ import annotations

import os
from pathlib import Path

from services.scheduler.engines.local.files import (
    read_text,
    sync,
    try_lock,
    write_atomic,
    write_in_place,
)


def test_an_atomic_write_makes_a_new_file_and_leaves_no_other(tmp_path: Path):
    path = tmp_path / "x.json"
    write_atomic(path, "one")
    reader = path.open()
    write_atomic(path, "two")
    sync(path)
    sync(tmp_path)

    assert (reader.read(), path.read_text()) == ("one", "two")
    assert list(tmp_path.iterdir()) == [path]
    reader.close()


def test_a_write_in_place_reaches_whoever_has_the_file_open(tmp_path: Path):
    path = tmp_path / "stop"
    path.write_text("a longer text")
    with path.open() as reader:
        write_in_place(path, "short")

        assert reader.read() == "short"


def test_a_missing_file_reads_as_empty(tmp_path: Path):
    assert read_text(tmp_path / "absent") == ""


def test_a_lock_is_had_once_and_is_free_when_its_descriptor_is_closed(tmp_path: Path):
    first = try_lock(tmp_path / "lock")
    assert first is not None
    assert try_lock(tmp_path / "lock") is None

    os.close(first)

    second = try_lock(tmp_path / "lock")
    assert second is not None
    os.close(second)


def test_a_lock_outlives_its_opener_in_a_descriptor_that_was_handed_on(tmp_path: Path):
    lock = try_lock(tmp_path / "lock")
    assert lock is not None
    handed_on = os.dup(lock)
    os.close(lock)

    assert try_lock(tmp_path / "lock") is None
    os.close(handed_on)
