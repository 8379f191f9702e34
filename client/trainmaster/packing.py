"""Packs a code folder into a tar.gz that is the same, byte for byte, whenever the files are the same.

Entries are sorted by path; times, owners and umask are left out (a file is 0644, or 0755 where it is executable), so an
unchanged folder uploads to the digest it had before. `.gitignore` files in the folder and below are honoured as git
does: the last matching pattern of the deepest file wins, and what is inside an ignored folder is out. `.git` and
`__pycache__` never go along. Symbolic links are kept where they point to something inside the folder.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from pathspec import GitIgnoreSpec

from trainmaster.errors import PackingError

ALWAYS_LEFT_OUT: Final = frozenset({".git", "__pycache__"})
_SPOOL_BYTES: Final = 8 * 1024 * 1024  # smaller archives never touch the disk
_COMPRESSION: Final = 6
_DEPTH_MAX: Final = 200  # what the platform takes


@dataclass(frozen=True, slots=True)
class Archive:
    """A packed folder, ready to be read from its beginning."""

    file: IO[bytes]
    size_bytes: int
    file_count: int


@dataclass(frozen=True, slots=True)
class _IgnoreRules:
    """The patterns of one `.gitignore`, and the folder it stands in."""

    folder: PurePosixPath
    spec: GitIgnoreSpec

    def verdict(self, path: PurePosixPath, *, is_folder: bool) -> bool | None:
        """True: ignored, False: explicitly kept, None: not mentioned."""
        text = path.relative_to(self.folder).as_posix() + ("/" if is_folder else "")
        return self.spec.check_file(text).include


@contextmanager
def packed(folder: Path) -> Iterator[Archive]:
    """The folder as an archive that lives as long as the block; raises PackingError where it cannot be packed."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise PackingError(f"{folder} {what}; `upload` names a folder, relative to the YAML file")
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as file:
        try:
            count = _write(folder, file)
        except OSError as error:
            raise PackingError(f"{error.filename or folder} cannot be packed: {error.strerror or error}") from error
        if count == 0:
            raise PackingError(f"{folder} holds no file that is not ignored; there is nothing to upload")
        size_bytes = file.tell()
        file.seek(0)
        yield Archive(file, size_bytes, count)


def folder_digest(folder: Path) -> str:
    """The digest that the folder has once it is uploaded; raises PackingError."""
    with packed(folder) as archive:
        return f"sha256:{hashlib.file_digest(archive.file, 'sha256').hexdigest()}"  # type: ignore[arg-type]  # it is one


def _write(folder: Path, file: IO[bytes]) -> int:
    count = 0
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=_COMPRESSION) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in _selected(folder, PurePosixPath(), ()):
            entry = _entry(folder, path)
            if entry.isreg():
                with (folder / path).open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
            count += not entry.isdir()
    return count


def _selected(root: Path, folder: PurePosixPath, inherited: tuple[_IgnoreRules, ...]) -> Iterator[PurePosixPath]:
    """Paths below `folder` that are not ignored, in sorted order, each folder before what is in it."""
    rules = (*inherited, *_rules_in(root, folder))
    for name in sorted(os.listdir(root / folder)):  # noqa: PTH208  # only names are wanted, and they are sorted as text
        path = folder / name
        is_folder = (root / path).is_dir() and not (root / path).is_symlink()
        if name in ALWAYS_LEFT_OUT or _ignored(path, rules, is_folder=is_folder):
            continue
        if len(path.parts) > _DEPTH_MAX:
            raise PackingError(f"{root} has more than {_DEPTH_MAX} folders in each other; leave some out by .gitignore")
        yield path
        if is_folder:
            yield from _selected(root, path, rules)


def _rules_in(root: Path, folder: PurePosixPath) -> tuple[_IgnoreRules, ...]:
    file = root / folder / ".gitignore"
    if not file.is_file():
        return ()
    try:
        lines = file.read_text("utf-8", errors="surrogateescape").splitlines()
        return (_IgnoreRules(folder, GitIgnoreSpec.from_lines(lines)),)
    except ValueError as error:
        raise PackingError(f"{file} is no usable .gitignore: {error}") from error


def _ignored(path: PurePosixPath, rules: tuple[_IgnoreRules, ...], *, is_folder: bool) -> bool:
    for rule in reversed(rules):
        verdict = rule.verdict(path, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def _entry(root: Path, path: PurePosixPath) -> tarfile.TarInfo:
    status = (root / path).lstat()
    entry = tarfile.TarInfo(path.as_posix())
    entry.mode = 0o755 if stat.S_ISDIR(status.st_mode) or status.st_mode & stat.S_IXUSR else 0o644
    if stat.S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, _inner_target(root, path), 0o777
    elif stat.S_ISREG(status.st_mode):
        entry.size = status.st_size
    else:
        raise PackingError(f"{root / path} is neither file, folder nor link; leave it out through .gitignore")
    return entry


def _inner_target(root: Path, path: PurePosixPath) -> str:
    """Where a link points to; raises where that is outside the folder, for it would point nowhere in the job."""
    target = os.readlink(root / path)  # noqa: PTH115  # Path.readlink would normalise the text
    try:
        lexically = not os.path.normpath(path.parent / target).startswith(("/", ".."))
        inside = lexically and (root / path).resolve().is_relative_to(root.resolve())
    except RuntimeError:  # a loop of links
        inside = False
    if not inside:
        advice = "copy it in, or leave it out through .gitignore"
        raise PackingError(f"{root / path} links to {target}, which is not in {root}; {advice}")
    return target
