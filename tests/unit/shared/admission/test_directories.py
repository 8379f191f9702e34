"""Which directories are known to be missing."""

from __future__ import annotations

from pathlib import Path

from shared.admission.directories import LocalDirectories, UnseenDirectories


async def test_what_is_not_there_is_missing(tmp_path: Path) -> None:
    there, file = tmp_path / "there", tmp_path / "file"
    there.mkdir()
    file.touch()
    paths = [str(path) for path in (there, file, tmp_path / "gone", file / "below")]
    assert await LocalDirectories().missing(paths) == {str(tmp_path / "gone"), str(file / "below")}


async def test_where_a_link_leads_nowhere_nothing_is_there(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    assert await LocalDirectories().missing([str(tmp_path / "link")]) == {str(tmp_path / "link")}


async def test_a_name_that_cannot_be_looked_at_is_not_called_missing() -> None:
    assert await LocalDirectories().missing(["/" + "x" * 5000]) == frozenset()


async def test_elsewhere_nothing_is_known_to_be_missing() -> None:
    assert await UnseenDirectories().missing(["/certainly/not/here"]) == frozenset()
