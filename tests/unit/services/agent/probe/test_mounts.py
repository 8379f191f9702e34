"""Directories of a node, looked at from within a container."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from services.agent.kubernetes.directories import NodeDirectories
from services.agent.probe import mounts
from services.agent.probe.mounts import looked_at

LINE = "36 25 0:31 / {place} ro,relatime master:1 - ext4 /dev/sda1 {options},errors=remount-ro\n"


def listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **options: str) -> Path:
    """The root below which the mounts are, each a directory with the options of its file system."""
    root = tmp_path / "host"
    text = LINE.format(place="/", options="rw")
    for name, given in options.items():
        (root / name).mkdir(parents=True)
        text += LINE.format(place=root / name, options=given)
    monkeypatch.setattr(mounts, "MOUNTS", tmp_path / "mountinfo")
    mounts.MOUNTS.write_text(text)
    return root


def test_what_counts_is_the_file_system_and_not_the_containers_own_mount(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = listed(monkeypatch, tmp_path, data="rw", broken="ro")
    places = {"/data/a": True, "/broken/a": True, "/broken/b": False}
    assert looked_at(str(root), places) == {"unreachable": [], "read_only": ["/broken/a"]}


def test_a_file_system_that_gives_errors_is_told_and_what_is_missing_or_closed_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root, scan = listed(monkeypatch, tmp_path, stale="rw", closed="rw", data="rw"), os.scandir

    def scandir(path: Any) -> Any:
        codes = {"stale": errno.ESTALE, "closed": errno.EACCES}
        if path.name in codes:
            raise OSError(codes[path.name], "no")
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = looked_at(str(root), dict.fromkeys(("/stale", "/closed", "/data/none"), True))
    assert found == {"unreachable": ["/stale"], "read_only": []}


async def test_only_what_is_shown_to_the_agent_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    directories = NodeDirectories(("/data/", "/gone"), tmp_path)
    found = await directories.look({"/data/x": False, "/database": True, "/gone/x": True})
    assert found["unlooked"] == ("/database",)
    assert found["unreachable"] == ()
    assert (await NodeDirectories(()).look({"/data": True})) == {"unlooked": ("/data",)}
