"""Gets commits of git repositories as archives.

A repository elsewhere has a bare one here, which is kept from job to job: commits are fetched into it one by one,
without their history. There is one a URL, owner and secret, so that nobody finds in it what somebody else's credentials
got. It is a cache: where it is damaged or has grown, it is thrown away. A repository on this machine is taken over
anew each time (see `snapshot`).

A revision is the name of a tag or branch (the tag wins, as in git itself), a full commit id, or nothing for the
repository's own default. It is settled to a commit first, and the commit is what is then archived, so that what is on
record is what ran.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from services.scheduler.sources.git_command import Credentials, Git, GitError
from services.scheduler.sources.snapshot import take_over
from shared.catalog.fields import FILE_SCHEME, file_path
from shared.ids import digest
from shared.shortages import is_shortage
from shared.units import GIB

COMMIT: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)
CACHES_MAX: Final = 32
_NAME_CHARS: Final = 24
_TRIES: Final = 2
# Committed attributes must not leave files out of what runs, or change them.
_ATTRIBUTES: Final = "* -export-ignore -export-subst\n"


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository, and on whose behalf it is read; `root` is where one on this machine must lie."""

    url: str
    owner: str = ""
    secret: str = ""
    credentials: Credentials | None = None
    root: Path | None = None


class Repository(Protocol):
    """A repository that is open for one use."""

    async def commit(self, revision: str | None) -> str:
        """The commit that a revision means now; raises GitError."""
        ...

    async def archive(self, commit: str, target: Path) -> None:
        """Write the commit's files as a gzipped tar file; raises GitError."""
        ...


class Repositories:
    """Opens repositories; `directory` is its own, for caches and copies."""

    def __init__(self, directory: Path, git: Git, *, most_bytes: int = 4 * GIB) -> None:
        self._directory = directory
        self._git = git
        self._most_bytes = most_bytes
        self._one_at_a_time: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        shutil.rmtree(directory / "copies", ignore_errors=True)
        for name in ("caches", "copies"):
            (directory / name).mkdir(parents=True, exist_ok=True)

    @asynccontextmanager
    async def open(self, remote: Remote) -> AsyncIterator[Repository]:
        """The repository for a while; raises GitError."""
        if remote.url.startswith(FILE_SCHEME):
            with tempfile.TemporaryDirectory(dir=self._directory / "copies") as copy:
                yield await self._taken_over(remote, Path(copy))
            return
        name = digest(remote.url, remote.owner, remote.secret)[:_NAME_CHARS]
        async with self._one_at_a_time[name]:
            yield _Cached(self._directory / "caches" / name, remote, self._git, self._most_bytes)
            await asyncio.to_thread(_drop_oldest, self._directory / "caches", CACHES_MAX)

    async def _taken_over(self, remote: Remote, copy: Path) -> Repository:
        await _initialise(self._git, copy)
        source, root = Path(file_path(remote.url)), remote.root or Path("/")
        try:
            await asyncio.to_thread(take_over, source, root, copy, self._most_bytes)
        except OSError as error:
            if is_shortage(error):
                raise
            raise GitError(f"it cannot be read: {error.strerror}") from error
        return _Local(copy, self._git)


class _Local:
    """A repository of our own that has everything."""

    def __init__(self, directory: Path, git: Git) -> None:
        self._directory = directory
        self._git = git

    async def commit(self, revision: str | None) -> str:
        for name in _names(revision):
            try:
                found = await self._git.run(
                    "rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}",
                    directory=self._directory,
                )  # fmt: skip
            except GitError:
                continue
            return found.strip()
        raise _unknown(revision)

    async def archive(self, commit: str, target: Path) -> None:
        await _archive(self._git, self._directory, commit, target)


class _Cached:
    """A repository elsewhere, by way of its cache."""

    def __init__(self, cache: Path, remote: Remote, git: Git, most_bytes: int) -> None:
        self._cache = cache
        self._remote = remote
        self._git = git
        self._most_bytes = most_bytes

    async def commit(self, revision: str | None) -> str:
        if revision is not None and COMMIT.fullmatch(revision):
            return revision
        names = _names(revision)
        peeled = [f"{name}^{{}}" for name in names]
        listed = await self._asks(
            "ls-remote", "--quiet", self._remote.url, *names, *peeled, directory=self._cache.parent
        )
        commits = _listed(listed)
        found = next((commits[name] for name in _preferred(names) if name in commits), None)
        if found is None:
            raise _unknown(revision)
        return found

    async def archive(self, commit: str, target: Path) -> None:
        for left in reversed(range(_TRIES)):
            try:
                await self._fetch(commit)
                await _archive(self._git, self._cache, commit, target)
            except GitError:
                await asyncio.to_thread(shutil.rmtree, self._cache, ignore_errors=True)
                if not left:
                    raise
            else:
                return

    async def _fetch(self, commit: str) -> None:
        if await asyncio.to_thread(_size_bytes, self._cache) > self._most_bytes:
            await asyncio.to_thread(shutil.rmtree, self._cache, ignore_errors=True)
        await _initialise(self._git, self._cache)
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--force")
        await self._asks("fetch", *options, self._remote.url, commit, directory=self._cache)

    async def _asks(self, *arguments: str, directory: Path) -> str:
        return await self._git.run(
            *arguments, directory=directory, url=self._remote.url, credentials=self._remote.credentials
        )


async def _initialise(git: Git, directory: Path) -> None:
    """Make the directory a bare repository of our own, or mark it as used where it is one."""
    attributes = directory / "info" / "attributes"
    await asyncio.to_thread(attributes.parent.mkdir, parents=True, exist_ok=True)
    await git.run("init", "--quiet", "--bare", "--template=", ".", directory=directory)
    await asyncio.to_thread(attributes.write_text, _ATTRIBUTES)
    await asyncio.to_thread(directory.touch)


async def _archive(git: Git, directory: Path, commit: str, target: Path) -> None:
    await git.run("archive", "--format=tar.gz", f"--output={target}", commit, directory=directory)


def _names(revision: str | None) -> tuple[str, ...]:
    """References that a revision may mean, the likelier first."""
    if revision is None:
        return ("HEAD",)
    if COMMIT.fullmatch(revision) or revision.startswith("refs/"):
        return (revision,)
    return (f"refs/tags/{revision}", f"refs/heads/{revision}")


def _preferred(names: tuple[str, ...]) -> tuple[str, ...]:
    """The same with what an annotated tag points to before the tag itself."""
    return tuple(each for name in names for each in (f"{name}^{{}}", name))


def _listed(output: str) -> Mapping[str, str]:
    """Commits by reference, as `ls-remote` prints them."""
    lines = (line.partition("\t") for line in output.splitlines())
    return {name: commit for commit, _, name in lines if COMMIT.fullmatch(commit)}


def _unknown(revision: str | None) -> GitError:
    if revision is None:
        return GitError("it has no default branch; give a revision")
    return GitError(f"it has no branch, tag or commit {revision!r}; a commit is given by all of its 40 digits")


def _size_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _drop_oldest(directory: Path, kept: int) -> None:
    caches = sorted(directory.iterdir(), key=lambda cache: cache.stat().st_mtime, reverse=True)
    for cache in caches[kept:]:
        shutil.rmtree(cache, ignore_errors=True)
