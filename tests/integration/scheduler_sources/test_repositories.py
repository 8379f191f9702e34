"""Commits out of real repositories: on this machine, and over HTTPS with and without a password."""

from __future__ import annotations

import gzip
import io
import os
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.scheduler.sources.git_command import Credentials, Git, GitError, GitLimits
from services.scheduler.sources.repositories import Remote, Repositories
from tests.support.git import GitServer, WorkTree, git_server

TOKEN = "token-that-nobody-else-sees"


@pytest.fixture
def served(tmp_path: Path) -> WorkTree:
    return WorkTree.make(tmp_path / "served" / "code")


@pytest.fixture
def server(served: WorkTree, tmp_path: Path) -> Iterator[GitServer]:
    with git_server(tmp_path / "served", tmp_path) as running:
        yield running


@pytest.fixture
def private(served: WorkTree, tmp_path: Path) -> Iterator[GitServer]:
    with git_server(tmp_path / "served", tmp_path, login=f"ann:{TOKEN}") as running:
        yield running


def repositories(tmp_path: Path, ca_file: Path | None = None, **limits) -> Repositories:
    own = tmp_path / "own"
    return Repositories(own, Git(own, ca_file, GitLimits(**limits)))


async def archived(found: Repositories, remote: Remote, revision: str | None, tmp_path: Path) -> tuple[str, dict]:
    """The commit, and the files of its archive."""
    target = tmp_path / "archive.tar.gz"
    async with found.open(remote) as repository:
        commit = await repository.commit(revision)
        await repository.archive(commit, target)
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(target.read_bytes()))) as archive:
        files = {each.name: archive.extractfile(each).read().decode() for each in archive if each.isreg()}
    return commit, files


@pytest.mark.parametrize("where", ["file", "https"])
async def test_every_kind_of_revision_is_settled_to_its_commit(
    where: str, served: WorkTree, server: GitServer, tmp_path: Path
):
    first = served.commit(train="one")
    served.git("tag", "light")
    served.git("tag", "--annotate", "heavy", "--message", "x")
    served.git("checkout", "--quiet", "-b", "feature/x")
    second = served.commit(train="two")
    served.git("checkout", "--quiet", "main")
    third = served.commit(train="three")
    url = f"file://{served.path}" if where == "file" else server.url("code/.git")
    found, remote = repositories(tmp_path, server.ca_file), Remote(url)
    expected = {None: third, "main": third, "light": first, "heavy": first, "feature/x": second, first: first}
    texts = {first: "one", second: "two", third: "three"}
    for revision, commit in expected.items():
        assert await archived(found, remote, revision, tmp_path) == (commit, {"train.sh": texts[commit]}), revision
    for revision in ("nothing", first[:12], "0" * 40, "refs/heads/nothing"):
        with pytest.raises(GitError):
            await archived(found, remote, revision, tmp_path)


async def test_a_moved_branch_is_seen_and_the_commit_before_is_still_to_be_had(
    served: WorkTree, server: GitServer, tmp_path: Path
):
    first = served.commit(train="one")
    found, remote = repositories(tmp_path, server.ca_file), Remote(server.url("code/.git"))
    await archived(found, remote, "main", tmp_path)
    second = served.commit(train="two")
    assert (await archived(found, remote, "main", tmp_path))[0] == second
    assert await archived(found, remote, first, tmp_path) == (first, {"train.sh": "one"})


async def test_a_private_repository_opens_with_the_right_password_alone(
    served: WorkTree, private: GitServer, tmp_path: Path
):
    served.commit(train="one")
    found, url = repositories(tmp_path, private.ca_file), private.url("code/.git")
    right = Remote(url, "ann", "token", Credentials("ann", TOKEN))
    assert (await archived(found, right, None, tmp_path))[1] == {"train.sh": "one"}
    for remote in (Remote(url), Remote(url, "bob", "token", Credentials("ann", "wrong"))):
        with pytest.raises(GitError, match=r"user and password|Authentication failed") as caught:
            await archived(found, remote, None, tmp_path)
        assert "wrong" not in str(caught.value)
    assert not [
        path for path in (tmp_path / "own").rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()
    ]


async def test_what_somebodys_password_got_is_in_nobody_elses_cache(
    served: WorkTree, private: GitServer, tmp_path: Path
):
    commit = served.commit(train="one")
    found, url = repositories(tmp_path, private.ca_file), private.url("code/.git")
    await archived(found, Remote(url, "ann", "token", Credentials("ann", TOKEN)), commit, tmp_path)
    with pytest.raises(GitError):
        await archived(found, Remote(url), commit, tmp_path)


async def test_a_redirect_is_not_followed_as_it_could_lead_the_password_elsewhere(
    served: WorkTree, server: GitServer, tmp_path: Path
):
    served.commit(train="one")
    found = repositories(tmp_path, server.ca_file)
    with pytest.raises(GitError):
        await archived(found, Remote(server.url("moved/code/.git")), None, tmp_path)
    assert {path.split("/")[1] for path, _ in server.requests} == {"moved"}


async def test_a_server_whose_certificate_nobody_vouches_for_is_refused(
    served: WorkTree, server: GitServer, tmp_path: Path
):
    served.commit(train="one")
    with pytest.raises(GitError, match="certificate"):
        await archived(repositories(tmp_path), Remote(server.url("code/.git")), None, tmp_path)


async def test_committed_attributes_leave_nothing_out(served: WorkTree, tmp_path: Path):
    (served.path / ".gitattributes").write_text("*.sh export-ignore\n")
    served.commit(train="$Format:%H$")
    remote = Remote(f"file://{served.path}")
    _commit, files = await archived(repositories(tmp_path), remote, None, tmp_path)
    assert files["train.sh"] == "$Format:%H$"


async def test_a_damaged_cache_is_made_anew(served: WorkTree, server: GitServer, tmp_path: Path):
    served.commit(train="one")
    found, remote = repositories(tmp_path, server.ca_file), Remote(server.url("code/.git"))
    await archived(found, remote, None, tmp_path)
    for pack in (tmp_path / "own" / "caches").rglob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(b"")
    assert (await archived(found, remote, None, tmp_path))[1] == {"train.sh": "one"}


async def test_a_repository_that_is_too_large_is_refused(served: WorkTree, server: GitServer, tmp_path: Path):
    served.commit(big=os.urandom(200_000).hex())
    small = repositories(tmp_path, server.ca_file, file_bytes=64_000)
    with pytest.raises(GitError):
        await archived(small, Remote(server.url("code/.git")), None, tmp_path)


async def test_a_server_that_does_not_answer_is_given_up(served: WorkTree, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(GitError, match="took longer"):
            await archived(repositories(tmp_path, time_s=0.5), Remote(url), None, tmp_path)
