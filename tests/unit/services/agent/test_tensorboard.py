"""Which files of a TensorBoard directory belong to an attempt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.agent import tensorboard
from services.agent.tensorboard import event_files

START_S = 1_700_000_000.0


def write(path: Path, at_s: float = START_S + 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    os.utime(path, (at_s, at_s))


def test_event_files_are_found_below_the_directory_and_nothing_else(tmp_path: Path):
    for name in ("events.out.tfevents.1", "train/a.tfevents", "train/deep/b.tfevents.v2", "model.pt", "train/log.txt"):
        write(tmp_path / name)
    found = event_files(tmp_path, ".", since_s=START_S)
    assert found == ["events.out.tfevents.1", "train/a.tfevents", "train/deep/b.tfevents.v2"]


def test_files_of_earlier_attempts_are_left_out_until_they_are_written_again(tmp_path: Path):
    write(tmp_path / "a.tfevents", START_S - 1)
    write(tmp_path / "b.tfevents", START_S)
    assert event_files(tmp_path, ".", since_s=START_S) == ["b.tfevents"]
    write(tmp_path / "a.tfevents", START_S + 5)
    assert event_files(tmp_path, ".", since_s=START_S) == ["a.tfevents", "b.tfevents"]


def test_links_are_not_followed(tmp_path: Path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(outside / "secret.tfevents")
    root.mkdir()
    (root / "linked").symlink_to(outside)
    (root / "link.tfevents").symlink_to(outside / "secret.tfevents")
    assert event_files(root, ".", since_s=START_S) == []


def test_below_the_trusted_root_no_link_is_followed_on_the_way(tmp_path: Path):
    write(tmp_path / "mount" / "out" / "runs" / "a.tfevents")
    write(tmp_path / "others" / "runs" / "secret.tfevents")
    assert event_files(tmp_path / "mount", "out/runs", since_s=START_S) == ["a.tfevents"]
    (tmp_path / "mount" / "link").symlink_to(tmp_path / "others")
    assert event_files(tmp_path / "mount", "link/runs", since_s=START_S) == []
    (tmp_path / "trusted").symlink_to(tmp_path / "mount")
    assert event_files(tmp_path / "trusted", "out/runs", since_s=START_S) == ["a.tfevents"]


def test_a_directory_that_is_not_there_has_none(tmp_path: Path):
    assert event_files(tmp_path / "later", ".", since_s=START_S) == []


def test_the_walk_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for number in range(30):
        write(tmp_path / f"{number:02d}.tfevents")
    write(tmp_path / "/".join("d" * 20) / "deep.tfevents")
    assert "deep.tfevents" not in "".join(event_files(tmp_path, ".", since_s=START_S))
    monkeypatch.setattr(tensorboard, "MAX_FILES", 10)
    assert len(event_files(tmp_path, ".", since_s=START_S)) == 10
    monkeypatch.setattr(tensorboard, "MAX_ENTRIES", 5)
    assert len(event_files(tmp_path, ".", since_s=START_S)) <= 5
