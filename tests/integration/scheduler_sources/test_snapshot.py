"""Repositories of this machine are taken over without running or following anything that their owner put there."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from services.scheduler.sources.git_command import Git, GitError
from services.scheduler.sources.repositories import Remote, Repositories
from tests.support.git import WorkTree


@pytest.fixture
def tree(tmp_path: Path) -> WorkTree:
    made = WorkTree.make(tmp_path / "storage" / "mine")
    made.commit(train="mine")
    return made


async def commit_of(tmp_path: Path, path: Path, revision: str | None = None, **limits) -> str:
    own = tmp_path / "own"
    found = Repositories(own, Git(own), **limits)
    async with found.open(Remote(f"file://{path}", root=tmp_path / "storage")) as repository:
        commit = await repository.commit(revision)
        await repository.archive(commit, tmp_path / "archive")
    assert not list((own / "copies").iterdir())
    return commit


async def test_bare_and_packed_repositories_are_read(tree: WorkTree, tmp_path: Path):
    head = tree.git("rev-parse", "HEAD")
    tree.git("gc", "--quiet")
    assert await commit_of(tmp_path, tree.path) == head
    bare = tmp_path / "storage" / "bare.git"
    tree.git("clone", "--quiet", "--bare", ".", str(bare))
    assert await commit_of(tmp_path, bare, "main") == head


async def test_commands_in_its_configuration_are_not_run(tree: WorkTree, tmp_path: Path):
    proof = tmp_path / "proof"
    for setting in ("core.fsmonitor", "core.sshCommand", "uploadpack.packObjectsHook", "tar.tar.gz.command"):
        tree.git("config", setting, f"touch {proof}; false")
    hook = tree.path / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {proof}\n")
    hook.chmod(0o755)
    await commit_of(tmp_path, tree.path)
    assert not proof.exists()


async def test_objects_of_others_are_not_reached(tree: WorkTree, tmp_path: Path):
    other = WorkTree.make(tmp_path / "other")
    own = {path.name for path in (tree.path / ".git" / "objects").iterdir()}
    commits = (other.commit(secret=f"theirs {number}") for number in range(100))
    foreign = next(commit for commit in commits if commit[:2] not in own)
    info = tree.path / ".git" / "objects" / "info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_text(f"{other.path}/.git/objects\n")
    with pytest.raises(GitError, match="no branch, tag or commit"):
        await commit_of(tmp_path, tree.path, foreign)
    (info / "alternates").unlink()
    (tree.path / ".git" / "objects" / foreign[:2]).symlink_to(other.path / ".git" / "objects" / foreign[:2])
    with pytest.raises(GitError, match="no branch, tag or commit"):
        await commit_of(tmp_path, tree.path, foreign)


async def test_a_link_out_of_the_storage_is_refused(tree: WorkTree, tmp_path: Path):
    other = WorkTree.make(tmp_path / "other")
    other.commit(secret="theirs")
    link = tmp_path / "storage" / "link"
    link.symlink_to(other.path)
    with pytest.raises(GitError, match="leads out of"):
        await commit_of(tmp_path, link)
    (tmp_path / "storage" / "half").mkdir()
    (tmp_path / "storage" / "half" / ".git").symlink_to(other.path / ".git")
    with pytest.raises(GitError, match="no git repository"):
        await commit_of(tmp_path, tmp_path / "storage" / "half")


async def test_what_is_no_repository_or_too_large_is_refused(tree: WorkTree, tmp_path: Path):
    with pytest.raises(GitError, match="no git repository"):
        await commit_of(tmp_path, tmp_path / "storage")
    with pytest.raises(GitError, match="no git repository"):
        await commit_of(tmp_path, tmp_path / "storage" / "gone")
    with pytest.raises(GitError, match="more than"):
        await commit_of(tmp_path, tree.path, most_bytes=100)


async def test_folders_that_are_too_deep_in_each_other_are_refused(tree: WorkTree, tmp_path: Path):
    (tree.path / ".git/refs/heads" / "/".join("d" * 201)).mkdir(parents=True)
    with pytest.raises(GitError, match="more than 200 deep"):
        await commit_of(tmp_path, tree.path)


async def test_a_repository_that_is_a_link_to_itself_is_refused(tmp_path: Path):
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage/loop").symlink_to("loop")
    with pytest.raises(GitError, match="no git repository"):
        await commit_of(tmp_path, tmp_path / "storage/loop")


async def test_a_full_disk_is_not_the_fault_of_the_repository(
    tree: WorkTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(OSError, match="No space left"):
        await commit_of(tmp_path, tree.path)


async def test_nor_is_one_that_git_tells_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    git = tmp_path / "bin/git"
    git.parent.mkdir()
    git.write_text("#!/bin/sh\necho 'fatal: write error: No space left on device' >&2\nexit 128\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{git.parent}:/usr/bin:/bin")
    with pytest.raises(OSError, match="No space left"):
        await Git(tmp_path / "own").run("fetch", directory=tmp_path)
