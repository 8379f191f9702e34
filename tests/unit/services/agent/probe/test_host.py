"""Directories that are written to without a trace, and names that must have addresses."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from services.agent.probe import host, writing


def without_nameless(path: Any, flags: int, mode: int = 0o777, *, opened: Any = os.open) -> int:
    """A file system that has no files without names, as NFS."""
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        raise OSError(errno.EOPNOTSUPP, "not supported")
    return int(opened(path, flags, mode))


@pytest.mark.parametrize("opened", [os.open, without_nameless])
def test_a_directory_that_keeps_what_is_written_is_as_it_was_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, opened: Any
) -> None:
    (tmp_path / "theirs").write_text("data")
    monkeypatch.setattr(writing.os, "open", opened)
    assert writing.keeps(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]
    assert (tmp_path / "theirs").read_text() == "data"


@pytest.mark.parametrize(
    ("call", "gives"),
    [("pread", lambda *_: b"other"), ("pwrite", lambda *_: 7)],
    ids=["other bytes come back", "not all is written"],
)
def test_one_that_does_not_keep_it_is_told_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str, gives: Any
) -> None:
    monkeypatch.setattr(writing.os, "open", without_nameless)
    monkeypatch.setattr(writing.os, call, gives)
    assert host.looked_at({str(tmp_path): True})["read_only"] == [str(tmp_path)]
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(writing.os, "fsync", full)
    assert not writing.keeps(str(tmp_path))


def test_what_need_not_be_written_or_is_not_there_yet_is_not_written_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(directory: str) -> bool:
        raise AssertionError(directory)

    monkeypatch.setattr(writing, "keeps", never)
    places = {str(tmp_path): False, str(tmp_path / "later"): True}
    assert host.looked_at(places) == {"unreachable": [], "read_only": []}


def test_names_without_an_address_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolver(name: bytes, _port: None) -> list[str]:
        if name != b"nats.example":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return ["10.0.0.1"]

    monkeypatch.setattr(host.socket, "getaddrinfo", resolver)
    assert host.unresolved(["nats.example", "gone.example"]) == ["gone.example"]
